/* emit_sources.c -- the files of runtime/ and kernels/ that a program uses.
 *
 * In:    the texts in the folder so far: train.c, objective.c, step.c or their counterparts.
 * Out:   copies of every file that they need; the objects for the Makefile.
 * Keeps: an emitted program links, and main reaches each of its objects (tests ask nm: `unreached`
 *        of programs.sh).
 * Method: a text needs the files that it includes, and each source that defines a function or
 *         variable that it names. In a header only macros and inline functions count as uses: a
 *         declared function is needed only where it is called. Definitions are the lines that begin
 *         at the left margin. Nothing is preprocessed: a name under an #if counts as used. */
#define _GNU_SOURCE
#include "gen/config/objective.h"
#include "gen/emit/emit.h"
#include "runtime/objectives/owners.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- names ----------------------------------------------------------------------------------- */

enum { FILES = 500, NAMES = 1 << 14 };

/* A name that a file defines, global or local to the file. */
typedef struct {
    const char *at;          /* in the text; NULL: a free slot */
    size_t n;
    int file;                /* in all.path; of the program's own files FILES and more */
    bool local;
} Name;

static struct {
    const char *path[FILES];     /* the sources of the runtime, then the other files needed */
    const char *text[FILES];     /* NULL: not read yet */
    bool needed[FILES];
    int n;
    Name name[NAMES];            /* a hash table with open addressing */
    int nnames;
    const char *objective;
} all;

/* Every character of every source passes through these: in ASCII, without a call. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool starts_name(char c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'; }

static size_t name_length(const char *p)
{
    size_t n = 0;
    while (starts_name(p[n]) || is_digit(p[n]))
        n++;
    return n;
}

/* The slot of a global name, or of one local to a file; a free slot if it is not in the table. */
static Name *name_at(const char *p, size_t n, bool local, int file)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 16777619u;
    for (;; h++) {
        Name *at = &all.name[h % NAMES];
        bool same = at->at && at->n == n && at->local == local && (!local || at->file == file);
        if (!at->at || (same && !memcmp(at->at, p, n)))
            return at;
    }
}

static void define(const char *p, size_t n, bool local, int file)
{
    if (++all.nnames == NAMES / 2)
        bug("more than %d names in runtime/", NAMES / 2);
    *name_at(p, n, local, file) = (Name){p, n, file, local};
}

/* ---- text of C ------------------------------------------------------------------------------- */

static const char *after_quotes(const char *p)
{
    const char quote = *p++;
    while (*p && *p != quote)
        p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

/* Returns the first character after a comment or quoted text that begins at p; p if none does. */
static const char *after_words(const char *p)
{
    if (*p == '"' || *p == '\'')
        return after_quotes(p);
    if (*p != '/' || (p[1] != '/' && p[1] != '*'))
        return p;
    const char *end = p[1] == '/' ? strchr(p, '\n') : strstr(p + 2, "*/");
    return !end ? p + strlen(p) : p[1] == '/' ? end : end + 2;
}

/* Returns the first character after the bracket that closes the one before p. */
static const char *after_brackets(const char *p)
{
    for (int depth = 1; *p && depth;) {
        const char *next = after_words(p);
        depth += next == p ? (*p == '(') - (*p == ')') : 0;
        p = next == p ? p + 1 : next;
    }
    return p;
}

/* Adds the names that a declaration at the left margin defines: a function, or variables. */
static void add_definition(const char *p, int file)
{
    const char *name = NULL;
    size_t length = 0;
    bool local = !strncmp(p, "static ", 7), function = false;
    if (!strncmp(p, "typedef ", 8) || !strncmp(p, "extern ", 7) ||
        !strncmp(p, "_Static_assert", 14))
        return;
    while (*p && !strchr("{=;", *p)) {
        const char *next = after_words(p);
        if (next != p) {
            p = next;
        } else if (starts_name(*p)) {
            if (!function)
                name = p, length = name_length(p);
            p += name_length(p);
        } else if (*p == '(') {
            function |= name && strncmp(name, "__", 2);
            p = after_brackets(p + 1);
        } else if (*p == '[' || *p == ',') {
            if (name && !function)
                define(name, length, local, file);
            name = *p == ',' ? NULL : name;
            p += strcspn(p, *p == '[' ? "]" : " ");
        } else {
            p++;
        }
    }
    /* a struct or enum with its body: the variables after the body are not looked for */
    if (name && (function ? *p == '{' : *p != '{'))
        define(name, length, local, file);
}

static void add_definitions(const char *text, int file)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (starts_name(*line))
            add_definition(line, file);
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

/* Returns true if the program may use a source: those of one backend or precision end in its name
 * or its library's name, and marked ones are for several ranks only. */
static bool fits(const char *path, const char *backend, const char *precision, bool ranks)
{
    static const struct { const char *end, *backend; bool ranks; } row[] = {
        {"_cpu.c", "cpu", false}, {"_mpi.c", "cpu", true},
        {"_cuda.c", "cuda", false}, {"_nccl.c", "cuda", false},
        {"/comm_rendezvous.c", "", true}, {"/rendezvous.c", "", true},
            {"/rendezvous_join.c", "", true},
    };
    if (ends_in(path, "_fp32.c") || ends_in(path, "_bf16.c"))
        return ends_in(path, text_print("_%s.c", precision));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (ends_in(path, row[i].end))
            return (!*row[i].backend || !strcmp(row[i].backend, backend)) &&
                   (ranks || !row[i].ranks);
    return true;
}

/* Returns the all.def of a program: the rows of its objective, and of the other objectives those
 * that messages use. */
static char *rows_of(const char *objective)
{
    static const struct { const char *name; int owners; } capability[] = {
#define CAPABILITY(name, doc) {#name, OWNERS_##name},
#include "runtime/objectives/capabilities.def"
    };
    Str s = {0};
    str_print(&s, "/* all.def -- the rows of the objective %s; of others capabilities and flags, "
                  "for messages. */\n"
                  "#include \"runtime/objectives/%s.def\"\n", objective, objective);
    for (int k = 0; k < objective_count(); k++) {
        const char *other = objective_row(k)->name;
        Str flags = {0};
        if (!strcmp(other, objective))
            continue;
        str_print(&s, "\n");
        for (size_t i = 0; i < sizeof capability / sizeof *capability; i++)
            if (owners_include(capability[i].owners, other))
                str_print(&s, "USES(%s, %s)\n", other, capability[i].name);
        for (int i = 0; i < nrun_flags; i++)
            if (run_flag_objectives(i) && !strcmp(run_flag_objectives(i), other))
                str_print(&flags, "%s%s", flags.n ? "|" : "", run_flag[i].name);
        if (flags.n)
            str_print(&s, "FLAGS_OF(%s, \"%s\")\n", other, flags.text);
    }
    return s.text;
}

/* Returns the text of a file of runtime/ or kernels/ as this program has it: with the rows of its
 * objective only. */
static const char *text_of(int file)
{
    const char *path = all.path[file];
    if (!all.text[file])
        all.text[file] = strcmp(path, "runtime/objectives/all.def") ? template_source(path)
                                                                    : rows_of(all.objective);
    return all.text[file];
}

/* Adds the sources of a folder ("runtime/files") and of its subfolders. */
static void add_sources(const char *folder, const char *backend, const char *precision, bool ranks)
{
    const char *path = text_print("%s/%s", gen_root(), folder);
    struct dirent **list;
    const int n = scandir(path, &list, NULL, alphasort);
    if (n < 0)
        err((Loc){path, 0}, "cannot be read: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = text_print("%s/%s", folder, list[i]->d_name);
        if (!strchr(list[i]->d_name, '.'))
            add_sources(name, backend, precision, ranks);
        else if (ends_in(name, ".c") && fits(name, backend, precision, ranks)) {
            const int file = add_path(name);
            add_definitions(text_of(file), file);
        }
        free(list[i]);
    }
    free(list);
}

static void need_named(const char *text, int file, bool header);

/* Returns the length of the folder part, including its slash, of the first n characters of a
 * path. */
static size_t folder_length(const char *path, size_t n)
{
    while (n && path[n - 1] != '/')
        n--;
    return n;
}

/* Marks the files that a text includes, relative to the project root or to its folder; other
 * includes are the program's own files. */
static void need_included(const char *text, const char *path, int file, bool with_rows)
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
        const int included = add_path(name);
        all.needed[included] = true;
        if (!ends_in(name, ".def"))
            continue;
        need_included(text_of(included), name, file, with_rows);
        if (with_rows)
            need_named(text_of(included), file, false);
    }
}

static void need_named(const char *text, int file, bool header)
{
    int depth = 0;
    bool macro = false;              /* in a #define */
    for (const char *p = text; *p;) {
        const char *next = after_words(p);
        if (next != p) {
            if (*p == '"' && *(next + strspn(next, " ")) == '{')
                depth--;             /* extern "C" { */
            p = next;
        } else if (starts_name(*p)) {
            const size_t n = name_length(p);
            const bool arrow = p > text + 1 && p[-1] == '>' && p[-2] == '-';
            const bool member = arrow || (p > text && p[-1] == '.');
            const bool declared = header && !macro && depth <= 0;
            const Name *global = member || declared ? NULL : name_at(p, n, false, 0);
            if (global && global->at && global->file < FILES && !name_at(p, n, true, file)->at)
                all.needed[global->file] = true;
            p += n;
        } else if (is_digit(*p)) {
            p += name_length(p);
        } else if (*p == '#' && (p == text || p[-1] == '\n')) {
            macro = !strncmp(p + 1 + strspn(p + 1, " "), "define ", 7);
            p += macro ? 1 : strcspn(p, "\n");
        } else {
            if (*p == '\n' && (p == text || p[-1] != '\\'))
                macro = false;
            depth += macro ? 0 : (*p == '{') - (*p == '}');
            p++;
        }
    }
}

/* Marks the names that a text uses. The rows of a table count as text of the source that includes
 * it. file: as Name.file. */
static void need(const char *text, const char *path, int file)
{
    const bool header = ends_in(path, ".h") || ends_in(path, ".cuh");
    if (header || ends_in(path, ".c") || ends_in(path, ".cu")) {
        need_included(text, path, file, !header);
        need_named(text, file, header);
    }
}

/* Adds the object of a source as a line of the Makefile's list. */
static void add_object(Str *to, const char *source)
{
    str_print(to, " \\\n    %.*s.o", (int)strlen(source) - 2, source);
}

char *sources_put(const char *objective, const char *backend, const char *precision, bool ranks)
{
    memset(&all, 0, sizeof all);
    all.objective = objective;
    add_sources("runtime", backend, precision, ranks);
    if (!strcmp(backend, "cpu"))
        add_sources("kernels/cpu", backend, precision, ranks);
    EmitFile *program;
    Str objects = {0};
    for (int i = 0, m = folder_files(&program); i < m; i++) {
        if (ends_in(program[i].name, ".c"))
            add_object(&objects, program[i].name);
        if (ends_in(program[i].name, ".c") || ends_in(program[i].name, ".cu"))
            add_definitions(program[i].text, FILES + i);
        need(program[i].text, program[i].name, FILES + i);
    }
    bool read[FILES] = {0};
    for (int i = 0; i < all.n; i++)
        if (all.needed[i] && !read[i]) {
            read[i] = true;
            need(text_of(i), all.path[i], i);
            i = -1;
        }
    const char *path[FILES];
    int n = 0;
    for (int i = 0; i < all.n; i++)
        if (all.needed[i])
            path[n++] = all.path[i];
    qsort(path, (size_t)n, sizeof *path, text_order);
    for (int i = 0; i < n; i++) {
        folder_put(path[i], text_of(add_path(path[i])), false);
        if (ends_in(path[i], ".c"))
            add_object(&objects, path[i]);
    }
    return objects.n ? objects.text : "";
}
