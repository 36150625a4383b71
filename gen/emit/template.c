/* template.c -- fills the holes of templates.
 *
 * Method: a hole is a line `//@ name`, replaced by lines, or @NAME@ inside a line. Lines between
 *         `//@ if name` or `//@ unless name` and `//@ end` stay if name has text, or has none; with
 *         name=word if its text is, or is not, that word. Such blocks nest. A line
 *         `//@ from FILE PART` is replaced by the lines after `//@ part PART` of a file next to the
 *         template, up to the next such line. */
#include "gen/emit/emit.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

char *template_source(const char *path)
{
    size_t n;
    char *text = file_text(text_print("%s/%s", gen_root(), path), 1 << 24, &n);
    if (!text)
        err((Loc){0},
            "cannot read %s/%s: %s; is gen next to its templates, kernels and runtime?",
            gen_root(), path, strerror(errno));
    return text;
}

Hole *template_hole(Hole *holes, int n, const char *name, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(holes[i].name) == len && !strncmp(holes[i].name, name, len))
            return &holes[i];
    return NULL;
}

static void fill_inline(Str *s, const char *line, size_t len, Hole *holes, int n, const char *path)
{
    for (size_t i = 0; i < len;) {
        size_t end = i + 1;
        while (line[i] == '@' && end < len &&
               (isupper((unsigned char)line[end]) || line[end] == '_'))
            end++;
        if (line[i] == '@' && end > i + 1 && end < len && line[end] == '@') {
            Hole *h = template_hole(holes, n, line + i + 1, end - i - 1);
            if (!h)
                bug("%s: no text for hole %.*s", path, (int)(end - i + 1), line + i);
            str_print(s, "%s", h->text);
            h->used = true;
            i = end + 1;
        } else
            str_print(s, "%c", line[i++]);
    }
    str_print(s, "\n");
}

static void fill_lines(Str *s, const char *text, const char *path, Hole *holes, int n);

/* of: "FILE PART", a part of a file in the folder of path. */
static void fill_part(Str *s, const char *of, const char *path, Hole *holes, int n)
{
    const int file = (int)strcspn(of, " "), folder = (int)(strrchr(path, '/') + 1 - path);
    const char *from = text_print("%.*s%.*s", folder, path, file, of), *mark = "//@ part ";
    const char *text = template_source(from), *part = text_print("%s%s\n", mark, of + file + 1);
    const char *begin = strstr(text, part), *end = begin ? strstr(begin + 1, mark) : NULL;
    if (!begin)
        bug("%s: %s has no part %s", path, from, of + file + 1);
    begin += strlen(part);
    size_t length = end ? (size_t)(end - begin) : strlen(begin);
    fill_lines(s, text_print("%.*s", (int)length, begin), from, holes, n);
}

/* Appends the lines of a text that is in the file at path. */
static void fill_lines(Str *s, const char *text, const char *path, Hole *holes, int n)
{
    int depth = 0, left_out = 0;     /* depth of conditions; the outermost that does not hold, 0:
                                      * none */
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n"), indent = strspn(line, " #");
        const char *mark = line + indent;
        bool when = !strncmp(mark, "//@ if ", 7), unless = !strncmp(mark, "//@ unless ", 11);
        if (when || unless) {
            const char *name = mark + (when ? 7 : 11);
            size_t length = (size_t)(line + len - name), key = strcspn(name, "=\n");
            Hole *h = template_hole(holes, n, name, key);
            if (!h)
                bug("%s: nothing says whether %.*s", path, (int)length, name);
            bool holds = key == length ? *h->text != 0
                         : strlen(h->text) == length - key - 1 &&
                               !strncmp(h->text, name + key + 1, length - key - 1);
            depth++;
            left_out = left_out || holds == when ? left_out : depth;
            h->used = true;
        } else if (!strncmp(mark, "//@ end", 7)) {
            left_out = left_out == depth ? 0 : left_out;
            if (--depth < 0)
                bug("%s: an end of no condition", path);
        } else if (left_out)
            ;
        else if (!strncmp(mark, "//@ from ", 9))
            fill_part(s, text_print("%.*s", (int)(line + len - mark - 9), mark + 9), path, holes,
                      n);
        else if (len > indent &&
                 (!strncmp(mark, "//@ ", 4) || (line[0] == '#' && !strncmp(mark, "@ ", 2)))) {
            const char *name = strchr(mark, ' ') + 1;
            Hole *h = template_hole(holes, n, name, (size_t)(line + len - name));
            if (!h || h->used)
                bug("%s: hole %.*s has no text, or two places", path, (int)(line + len - name),
                    name);
            str_print(s, "%s", h->text);
            h->used = true;
        } else
            fill_inline(s, line, len, holes, n, path);
        line += len + (line[len] == '\n');
    }
    if (depth)
        bug("%s: %d conditions without an end", path, depth);
}

char *template_line(const char *line, Hole *holes, int n)
{
    Str s = {0};
    fill_inline(&s, line, strlen(line), holes, n, line);
    s.text[s.n - 1] = 0;             /* the newline */
    return s.text;
}

char *template_fill_some(const char *path, Hole *holes, int n)
{
    Str s = {0};
    fill_lines(&s, template_source(path), path, holes, n);
    return s.text;
}

char *template_fill(const char *path, Hole *holes, int n)
{
    char *text = template_fill_some(path, holes, n);
    for (int i = 0; i < n; i++)
        if (!holes[i].used)
            bug("%s: hole %s is missing", path, holes[i].name);
    return text;
}
