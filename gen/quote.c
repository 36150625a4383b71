/* quote.c -- quoting of user text in emitted files and messages: one function per language.
 *
 * In:    recipe paths, folders, overrides, names: any bytes.
 * Keeps: no such text is read as C, shell or make code, even if path_check() accepted it. */
#include "gen/util.h"

#include <string.h>

#include "runtime/files/utf8.h"

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-,@/";

/* Escapes a character for a C string, also ? because of trigraphs. */
static void escape(Str *s, unsigned char c)
{
    if (c == '"' || c == '\\' || c == '?')
        str_print(s, "\\%c", c);
    else if (c < ' ' || c > 126)
        str_print(s, "\\%03o", c);
    else
        str_print(s, "%c", c);
}

char *c_string(const char *text)
{
    enum { COLUMNS = 90 };
    Str s = {0};
    size_t line = 0;                 /* start of the current line in s */
    str_print(&s, "\"");
    for (const char *p = text; *p; p++) {
        const bool ends = *p == '\n';
        if (ends)
            str_print(&s, "\\n");
        else
            escape(&s, (unsigned char)*p);
        if (p[1] && (ends || (*p == ' ' && s.n - line + strcspn(p + 1, " \n") > COLUMNS))) {
            str_print(&s, "\"\n    \"");
            line = s.n - 5;
        }
    }
    str_print(&s, "\"");
    return s.text;
}

char *text_comment(const char *text)
{
    char *copy = text_copy(text);
    for (char *p = copy; *p; p++) {
        bool bound = (*p == '*' && p[1] == '/') || (*p == '/' && p[1] == '*');
        if ((unsigned char)*p < ' ' || *p == 127 || *p == '\\' || bound)
            *p = '?';
    }
    return copy;
}

char *text_shell(const char *text)
{
    static const char safe[] = "=:%";
    const char *p = text;
    while (*p && (strchr(plain, *p) || strchr(safe, *p)))
        p++;
    if (!*p && *text)
        return text_copy(text);
    Str s = {0};
    str_print(&s, "'");
    for (p = text; *p; p++)
        if (*p == '\'')
            str_print(&s, "'\\''");
        else
            str_print(&s, "%c", *p);
    str_print(&s, "'");
    return s.text;
}

char *text_shown(const char *text)
{
    Str s = {0};
    str_print(&s, "\"");
    for (const char *p = text; *p; p++)
        escape(&s, (unsigned char)*p);
    str_print(&s, "\"");
    return s.text;
}

/* Bytes of the character at p if it is allowed in paths, else 0: safe ASCII, blanks, letters of
 * other alphabets; no Unicode spaces or invisible or direction marks. */
static int allowed(const char *p)
{
    int bad, n = utf8_length(p, strlen(p), &bad);
    if (n < 2)
        return n == 1 && (*p == ' ' || strchr(plain, *p));
    uint32_t c = utf8_value(p, n);
    bool sign = c < 0xa1 || c == 0xad || utf8_is_space(c) || (c >= 0x2000 && c <= 0x206f) ||
                (c >= 0xd800 && c <= 0xf8ff) || (c >= 0xfe00 && c <= 0xfe0f) ||
                (c >= 0xfeff && c <= 0xffff) || c >= 0xe0000;
    return sign ? 0 : n;
}

void path_check_at(Loc loc, const char *what, const char *path)
{
    if (!*path)
        err(loc, "%s: needs a path, got nothing", what);
    if (*path == '-')
        err(loc, "%s %s: begins with -, as an option does; ./%s means the same", what,
            text_shown(path), text_comment(path));
    for (const char *p = path; *p;) {
        int n = allowed(p), bad;
        if (!n) {
            int len = utf8_length(p, strlen(p), &bad);
            err(loc, "%s %s: %s is not allowed in paths, which go into Makefiles and scripts: "
                "rename it with only letters, digits, blanks and _ . + - , @ /", what,
                text_shown(path), text_shown(text_print("%.*s", len ? len : bad, p)));
        }
        p += n;
    }
}

void path_check(const char *what, const char *path)
{
    path_check_at((Loc){0}, what, path);
}
