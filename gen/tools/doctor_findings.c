/* doctor_findings.c -- gen doctor: the list of findings; small files and versions.
 *
 * In:    facts from the other parts.
 * Out:   Doctor.list.
 * Keeps: a finding is one line without control characters. */
#include "gen/tools/doctor.h"

#include "runtime/ranks/launch.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- findings -------------------------------------------------------------------------------- */

const char *doctor_env(const Doctor *d, const char *name)
{
    size_t n = strlen(name);
    for (char *const *e = d->env; *e; e++)
        if (!strncmp(*e, name, n) && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

bool doctor_wants(const Doctor *d, unsigned blocks)
{
    return !d->wanted || d->wanted->wants & blocks;
}

Finding *doctor_add(Doctor *d, DoctorState state, const char *what, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    size_t n = (size_t)vsnprintf(NULL, 0, fmt, again) + 1;
    va_end(again);
    char *text = arena_new(n);
    vsnprintf(text, n, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    if (d->n == d->cap) {
        d->list = arena_grow(d->list, sizeof *d->list * (size_t)d->cap,
                             sizeof *d->list * (size_t)(2 * d->cap + 64));
        d->cap = 2 * d->cap + 64;
    }
    Finding *f = &d->list[d->n++];
    *f = (Finding){.section = d->section,
                   .state = state,
                   .what = what,
                   .text = text,
                   .facts = cJSON_CreateObject()};
    return f;
}

void doctor_number(Finding *f, const char *name, double value)
{
    cJSON_AddNumberToObject(f->facts, name, value);
}

void doctor_fact(Finding *f, const char *name, const char *value)
{
    cJSON_AddStringToObject(f->facts, name, value);
}

double doctor_scale(const Doctor *d)
{
    double scale;
    launch_scale(d->env, &scale);        /* errors are reported by doctor_launch() */
    return scale;
}

/* ---- files and texts ------------------------------------------------------------------------- */

char *doctor_read(const Doctor *d, const char *path)
{
    FILE *from = fopen(text_print("%s%s", d->root, path), "re");
    if (!from)
        return NULL;
    Str s = {0};
    char piece[4096];
    size_t n;
    str_print(&s, "%s", "");
    while (s.n < 1 << 22 && (n = fread(piece, 1, sizeof piece, from)) > 0)
        str_print(&s, "%.*s", (int)n, piece);
    fclose(from);
    while (s.n && s.text[s.n - 1] == '\n')
        s.text[--s.n] = 0;
    return s.text;
}

int doctor_names(const Doctor *d, const char *path, const char **name, int max)
{
    int n = 0;
    DIR *dir = opendir(text_print("%s%s", d->root, path));
    for (struct dirent *e; dir && n < max && (e = readdir(dir));)
        if (*e->d_name != '.')
            name[n++] = text_copy(e->d_name);
    if (dir)
        closedir(dir);
    qsort(name, (size_t)n, sizeof *name, text_order);
    return n;
}

char *doctor_version(const char *text)
{
    for (const char *p = text; *p; p++) {
        size_t n = strspn(p, "0123456789");
        if (!n)
            continue;
        if (p[n] == '.' && p[n + 1] >= '0' && p[n + 1] <= '9') {
            size_t all = strspn(p, "0123456789.");
            while (p[all - 1] == '.')
                all--;
            return text_print("%.*s", (int)all, p);
        }
        p += n - 1;
    }
    return text_copy("");
}
