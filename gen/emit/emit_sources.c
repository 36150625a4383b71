/* emit_sources.c -- the files of runtime/ and kernels/ that a program uses.
 *
 * In:    the texts in the folder so far: train.c, objective.c, step.c or what stands for them.
 * Out:   copies of every file that they need; the objects for the Makefile.
 * Keeps: an emitted program links, and each of its objects is reached from main (tests/builds/unused.sh asks nm).
 * Method: a text needs what it includes, and each source that defines a function or variable it names. Of a header only
 *         macros and inline functions are read for names: what it declares is needed only where it is used. C is split
 *         into tokens, not preprocessed, so a name under an #if that does not hold counts as used. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

typedef struct {
    const char *at;
    size_t n;                /* 0: the end */
    bool macro;              /* in a #define */
    bool member;             /* behind . or -> */
} Token;

typedef struct {
    const char *p;
    bool macro, member;
} Lexer;

static bool starts_name(char c) { return isalpha((unsigned char)c) || c == '_'; }

static const char *after_quotes(const char *p)
{
    const char quote = *p++;
    while (*p && *p != quote)
        p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

/* Behind blanks, comments and directives other than #define, whose end turns l->macro off. */
static void skip_blanks(Lexer *l)
{
    for (;; l->p++) {
        if (!strncmp(l->p, "\\\n", 2))
            l->p++;
        else if (*l->p == '\n')
            l->macro = false;
        else if (!strncmp(l->p, "//", 2))
            l->p += strcspn(l->p, "\n") - 1;
        else if (!strncmp(l->p, "/*", 2))
            l->p = strstr(l->p, "*/") + 1;
        else if (*l->p == '#' && !l->macro) {
            const char *word = l->p + 1 + strspn(l->p + 1, " ");
            l->macro = !strncmp(word, "define ", 7);
            l->p = l->macro ? word + 6 : l->p + strcspn(l->p, "\n") - 1;
        } else if (!isspace((unsigned char)*l->p))
            return;
    }
}

/* A name, a number or a string as a whole, else one character. */
static Token token(Lexer *l)
{
    skip_blanks(l);
    Token t = {l->p, 1, l->macro, l->member};
    if (!*l->p)
        t.n = 0;
    else if (starts_name(*l->p) || isdigit((unsigned char)*l->p))
        for (t.n = 0; isalnum((unsigned char)l->p[t.n]) || l->p[t.n] == '_';)
            t.n++;
    else if (*l->p == '"' || *l->p == '\'')
        t.n = (size_t)(after_quotes(l->p) - l->p);
    l->member = *l->p == '.' || !strncmp(l->p, "->", 2) || (l->member && *l->p == '>');
    l->p += t.n;
    return t;
}

static bool is(Token t, const char *word) { return t.n == strlen(word) && !strncmp(t.at, word, t.n); }

/* ---- definitions ----------------------------------------------------------------------------- */

enum { FILES = 500, NAMES = 5000 };

typedef struct { const char *name; int file; } Definition;

typedef struct { Definition row[NAMES]; int n; } Names;      /* sorted before they are looked up */

static struct {
    const char *path[FILES];     /* the sources of the runtime, then what else is needed */
    bool needed[FILES];
    int n;
    Names global;
} all;

static void define(Names *names, Token t, int file)
{
    if (names->n == NAMES)
        bug("more than %d names in runtime/", NAMES);
    names->row[names->n++] = (Definition){text_print("%.*s", (int)t.n, t.at), file};
}

/* Behind the bracket that closes the one just read. */
static void skip_brackets(Lexer *l, char open, char close)
{
    for (int depth = 1; depth;) {
        Token t = token(l);
        if (!t.n)
            return;
        if (!t.macro)
            depth += (*t.at == open) - (*t.at == close);
    }
}

/* Functions and variables that other files can name, or those that only this file can. */
static void add_definitions(Names *names, const char *text, int file, bool local)
{
    Lexer l = {text, false, false};
    Token name = {0}, t;
    bool hidden = false, function = false, done = false;
    while ((t = token(&l)).n) {
        const char c = *t.at;
        if (t.macro)
            continue;
        if (is(t, "static") || is(t, "typedef") || is(t, "extern") || is(t, "_Static_assert"))
            hidden = true;
        else if (starts_name(c) && !done)
            name = t;
        else if (c == '(') {
            function |= name.n && strncmp(name.at, "__", 2);
            done |= function;
            skip_brackets(&l, '(', ')');
        } else if (c == '{') {
            skip_brackets(&l, '{', '}');
            if (function && hidden == local)
                define(names, name, file);
            if (function)
                hidden = function = done = false;
            name.n = 0;
        } else if (strchr("[=,;", c)) {
            if (name.n && !function && hidden == local && !done)
                define(names, name, file);
            done = c != ';' && c != ',';
            name.n = 0;
            if (c == ';')
                hidden = function = false;
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const Definition *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void sort(Names *names) { qsort(names->row, (size_t)names->n, sizeof *names->row, by_name); }

static const Definition *definition_of(Token t, const Names *names)
{
    char name[64];
    if (t.n >= sizeof name)
        return NULL;
    memcpy(name, t.at, t.n);
    name[t.n] = 0;
    return bsearch(&(Definition){name, 0}, names->row, (size_t)names->n, sizeof *names->row, by_name);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int add_path(const char *path)
{
    for (int i = 0; i < all.n; i++)
        if (!strcmp(all.path[i], path))
            return i;
    if (all.n == FILES)
        bug("more than %d files for a program", FILES);
    all.path[all.n] = path;
    return all.n++;
}

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

/* Sources of one backend end in its name or in that of its library; those marked here are for more than one rank. */
static bool fits(const char *path, const char *backend, bool ranks)
{
    static const struct { const char *end, *backend; bool ranks; } row[] = {
        {"_cpu.c", "cpu", false}, {"_mpi.c", "cpu", true}, {"_cuda.c", "cuda", false}, {"_nccl.c", "cuda", false},
        {"/comm_star.c", "", true}, {"/star.c", "", true}, {"/star_join.c", "", true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (ends_in(path, row[i].end))
            return (!*row[i].backend || !strcmp(row[i].backend, backend)) && (ranks || !row[i].ranks);
    return true;
}

/* The sources of a folder ("runtime/files") and of those below it. */
static void add_sources(const char *folder, const char *backend, bool ranks)
{
    const char *path = text_print("%s/%s", gen_root(), folder);
    struct dirent **list;
    const int n = scandir(path, &list, NULL, alphasort);
    if (n < 0)
        err((Loc){path, 0}, "cannot be read: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = text_print("%s/%s", folder, list[i]->d_name);
        if (!strchr(list[i]->d_name, '.'))
            add_sources(name, backend, ranks);
        else if (ends_in(name, ".c") && fits(name, backend, ranks))
            add_definitions(&all.global, template_source(name), add_path(name), false);
        free(list[i]);
    }
    free(list);
}

static void need_named(const char *text, bool header);

/* Of the n first characters of a path: those up to the last slash, with it. */
static size_t folder_length(const char *path, size_t n)
{
    while (n && path[n - 1] != '/')
        n--;
    return n;
}

/* What it includes, seen from the root of the project or from its folder; other files are the program's own. */
static void need_included(const char *text, const char *path, bool with_rows)
{
    for (const char *p = text; (p = strstr(p, "#include \"")); p++) {
        const char *name = text_print("%.*s", (int)strcspn(p + 10, "\""), p + 10);
        if (strncmp(name, "runtime/", 8) && strncmp(name, "kernels/", 8)) {
            size_t folder = folder_length(path, strlen(path));
            for (; folder && !strncmp(name, "../", 3); name += 3)
                folder = folder_length(path, folder - 1);
            name = text_print("%.*s%s", (int)folder, path, name);
            if (!strchr(name, '/') || access(text_print("%s/%s", gen_root(), name), R_OK))
                continue;
        }
        all.needed[add_path(name)] = true;
        if (with_rows && ends_in(name, ".def"))
            need_named(template_source(name), false);
    }
}

static void need_named(const char *text, bool header)
{
    static Names local;
    Lexer l = {text, false, false};
    Token t, before = {0};
    int depth = 0;
    local.n = 0;
    add_definitions(&local, text, 0, true);
    sort(&local);
    for (; (t = token(&l)).n; before = t) {
        if (!t.macro && *t.at == '{')
            depth += *(before.n ? before.at : "x") != '"';      /* extern "C" { */
        else if (!t.macro && *t.at == '}')
            depth -= depth > 0;
        if (!starts_name(*t.at) || t.member || (header && !t.macro && !depth) || definition_of(t, &local))
            continue;
        const Definition *d = definition_of(t, &all.global);
        if (d)
            all.needed[d->file] = true;
    }
}

/* Rows of tables name functions of the source that includes them. */
static void need(const char *text, const char *path)
{
    const bool header = ends_in(path, ".h") || ends_in(path, ".cuh");
    if (header || ends_in(path, ".c") || ends_in(path, ".cu")) {
        need_included(text, path, !header);
        need_named(text, header);
    }
}

char *sources_put(const char *backend, bool ranks)
{
    memset(&all, 0, sizeof all);
    add_sources("runtime", backend, ranks);
    sort(&all.global);
    EmitFile *own;
    for (int i = 0, m = folder_files(&own); i < m; i++)
        need(own[i].text, own[i].name);
    bool read[FILES] = {0};
    for (int i = 0; i < all.n; i++)
        if (all.needed[i] && !read[i]) {
            read[i] = true;
            need(template_source(all.path[i]), all.path[i]);
            i = -1;
        }
    const char *path[FILES];
    int n = 0;
    for (int i = 0; i < all.n; i++)
        if (all.needed[i])
            path[n++] = all.path[i];
    qsort(path, (size_t)n, sizeof *path, text_order);
    Str objects = {0};
    for (int i = 0; i < n; i++) {
        folder_put(path[i], template_source(path[i]), false);
        if (ends_in(path[i], ".c"))
            str_print(&objects, " \\\n    %.*s.o", (int)strlen(path[i]) - 2, path[i]);
    }
    return objects.n ? objects.text : "";
}
