/* doctor_tools.c -- gen doctor: compilers, launchers and libraries, with versions and users.
 *
 * In:    PATH; CC, CXX, MPICC, MPIRUN, CUDA, NVCC, as in emitted Makefiles.
 * Out:   findings.
 * Method: compiles one file for the headers and versions of all libraries, then links them all; one
 *         by one if that fails. Libraries that programs load at run time are opened here. */
#define _GNU_SOURCE
#include "gen/tools/doctor.h"
#include "gen/tools/process.h"
#include "gen/tools/tools.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double tool_seconds = 10;

/* ---- compilers and launchers ---- */

typedef struct {
    const char *name, *variable, *commands, *version;
    double least;
    unsigned blocks;
    const char *package, *why;
} Tool;

static const Tool tool[] = {
#define TOOL(name, variable, commands, version, least, blocks, package, why) \
    {name, variable, commands, version, least, (blocks) & ~NEED_GEN, package, why},
#include "runtime/toolchain.def"
};
enum { TOOLS = sizeof tool / sizeof *tool };

/* Splits a text at blanks into at most max - 1 words, NULL-terminated. */
static void split(const char *text, const char **word, int max)
{
    char *all = text_copy(text), *save = NULL;
    int n = 0;
    for (char *w = strtok_r(all, " \t", &save); w && n < max - 1; w = strtok_r(NULL, " \t", &save))
        word[n++] = w;
    word[n] = NULL;
}

/* Appends the words of `flags`, then those of `paths`, to `words`; NULL-terminated. */
static char *const *with(const char *const *words, const char *flags, const char *const *paths)
{
    enum { MOST = 96 };
    const char **all = arena_new(MOST * sizeof *all);
    int n = 0;
    for (; words[n]; n++)
        all[n] = words[n];
    split(flags, all + n, MOST - 32 - n);
    while (all[n])
        n++;
    for (int i = 0; paths && paths[i]; i++)
        all[n++] = paths[i];
    return (char *const *)all;
}

static char *first_line(const char *text)
{
    text += strspn(text, " \t\r\n");
    return text_print("%.*s", (int)strcspn(text, "\r\n"), text);
}

/* Line with the error: the first with "error", else the first. */
static char *error_line(const char *text)
{
    const char *at = strstr(text, "error");
    while (at && at > text && at[-1] != '\n')
        at--;
    return first_line(at ? at : text);
}

static void add_missing(Doctor *d, const Tool *t, const char *why)
{
    Finding *f =
        doctor_add(d, t->blocks ? DOCTOR_MISSING : DOCTOR_OK, t->name, "%s; %s", why, t->why);
    f->blocks = t->blocks;
    f->package = t->package;
}

/* words[0] NULL: not found or not usable. */
static void find_tool(Doctor *d, const Tool *t, const char **words, int max)
{
    const char *chosen = *t->variable ? doctor_env(d, t->variable) : NULL;
    const char *names = chosen && *chosen ? chosen : t->commands;
    char *list = text_copy(names), *save = NULL;
    words[0] = NULL;
    for (char *one = strtok_r(list, "|", &save); one && !words[0];
         one = strtok_r(NULL, "|", &save)) {
        split(one, words, max);
        if (words[0] && !program_find(words[0]))
            words[0] = NULL;
    }
    if (!words[0]) {
        add_missing(d, t,
                    text_print("%s is missing", chosen && *chosen
                                                      ? text_print("%s=%s", t->variable, chosen)
                                                      : t->commands));
        return;
    }
    Ended e = {.code = -1};
    const char *version = "";
    list = text_copy(t->version);
    for (char *one = strtok_r(list, "|", &save); one && !*version;
         one = strtok_r(NULL, "|", &save)) {
        e = process_run(with(words, one, NULL), NULL, tool_seconds * doctor_scale(d));
        version = e.code || e.late ? "" : doctor_version(e.text);
    }
    if (!*version) {
        add_missing(d, t, text_print("%s does not say its version: %s", words[0],
                                     e.late ? "no answer" : first_line(e.text)));
        words[0] = NULL;
        return;
    }
    const char *path = program_find(words[0]);
    if (strtod(version, NULL) < t->least) {
        add_missing(d, t,
                    text_print("%s is version %s, must be %g or later", path, version, t->least));
        words[0] = NULL;
        return;
    }
    Finding *f = doctor_add(d, DOCTOR_OK, t->name, "%s %s", chosen && *chosen ? chosen : path,
                            version);
    doctor_fact(f, "path", path);
    doctor_fact(f, "version", version);
}

/* Compiles and links C11 with OpenMP and the target's instructions. */
static void try_compiler(Doctor *d)
{
    const Target *t = d->wanted ? d->wanted->target : target_find("cpu");
    const char *flags = strcmp(t->backend, "cpu") ? "-O2" : t->cflags;
    if (!d->cc[0])
        return;
    const char *const paths[] = {"-o", text_print("%s/openmp", scratch_folder()), NULL};
    Ended e =
        process_run(with(d->cc, text_print("-std=c11 -fopenmp %s -x c -", flags), paths),
                    "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n",
                    3 * tool_seconds * doctor_scale(d));
    if (!e.code && !e.late)
        return;
    Finding *f = doctor_add(d, DOCTOR_MISSING, "C compiler",
                            "%s makes no program with OpenMP for target %s: %s", d->cc[0], t->name,
                            e.late ? "no answer" : error_line(e.text));
    f->blocks = NEED_CPU_BUILD;
    f->todo = "install gcc with libc6-dev and libgomp, or unset CC";
    d->cc[0] = NULL;
}

/* Finds the toolkit as emitted Makefiles do: CUDA, the folder of nvcc on PATH, the usual folder. */
static void find_toolkit(Doctor *d)
{
    const char *folder = doctor_env(d, "CUDA"), *nvcc = doctor_env(d, "NVCC"),
               *path = program_find("nvcc");
    size_t n = path ? strlen(path) : 0;
    if (folder && *folder)
        d->cuda = folder;
    else if (n > 9 && !strcmp(path + n - 9, "/bin/nvcc"))
        d->cuda = text_print("%.*s", (int)n - 9, path);
    else
        d->cuda = "/usr/local/cuda";
    d->nvcc = nvcc && *nvcc ? nvcc : text_print("%s/bin/nvcc", d->cuda);
    if (!program_find(d->nvcc))
        d->nvcc = NULL;
    if (access(text_print("%s/include", d->cuda), X_OK))
        d->cuda = NULL;
}

/* Required architectures that nvcc does not support, between blanks; NULL: none. *toolkit: the
 * first CUDA toolkit that supports them all. */
static const char *unknown_targets(const Doctor *d, const char *codes, const char **toolkit)
{
    Str s = {0};
    *toolkit = "0";
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        const char *code = text_print("sm_%d", t->capability);
        bool wanted = d->wanted ? t == d->wanted->target : true;
        size_t n = strlen(code);
        const char *at = codes;
        while ((at = strstr(at, code)) && at[n] >= '0' && at[n] <= '9')
            at += n;
        if (!wanted || strcmp(t->backend, "cuda") || at)
            continue;
        str_print(&s, "%s%s", s.n ? " " : "", t->name);
        if (strtod(t->toolkit, NULL) > strtod(*toolkit, NULL))
            *toolkit = t->toolkit;
    }
    return s.text;
}

static void find_nvcc(Doctor *d)
{
    const Tool *row = tool;
    while (strcmp(row->variable, "NVCC"))
        row++;
    const double seconds = 3 * tool_seconds * doctor_scale(d);
    find_toolkit(d);
    if (!d->nvcc) {
        add_missing(d, row, "not on PATH, not below CUDA or /usr/local/cuda");
        return;
    }
    const char *const nvcc[] = {d->nvcc, NULL};
    Ended e = process_run(with(nvcc, "--version", NULL), NULL, seconds);
    const char *version = e.code || e.late ? "" : doctor_version(e.text);
    if (strtod(version, NULL) < row->least) {
        add_missing(d, row,
                    *version ? text_print("%s is version %s, must be 12.0 or later (C++20)",
                                          d->nvcc, version)
                             : text_print("%s does not say its version: %s", d->nvcc,
                                          first_line(e.text)));
        d->nvcc = NULL;
        return;
    }
    d->nvcc_version = version;
    e = process_run(with(nvcc, "--list-gpu-code", NULL), NULL, seconds);
    const char *toolkit, *unknown = e.code || e.late ? NULL : unknown_targets(d, e.text, &toolkit);
    if (unknown) {
        Finding *f = doctor_add(d, d->wanted ? DOCTOR_MISSING : DOCTOR_WARNING, "nvcc",
                                "%s %s does not know %s", d->nvcc, version, unknown);
        f->blocks = d->wanted ? NEED_CUDA_BUILD : 0;
        f->todo = text_print("install CUDA toolkit %s or later", toolkit);
        return;
    }
    Finding *f = doctor_add(d, DOCTOR_OK, "nvcc", "%s %s", d->nvcc, version);
    doctor_fact(f, "path", d->nvcc);
    doctor_fact(f, "version", version);
    e = process_run(with(nvcc, "-std=c++20 -E -x cu /dev/null", NULL), NULL, seconds);
    if (!e.code && !e.late) {
        doctor_add(d, DOCTOR_OK, "nvcc's host", "nvcc takes the C++ compiler");
        return;
    }
    f = doctor_add(d, DOCTOR_MISSING, "nvcc's host", "nvcc does not take the C++ compiler: %s",
                   e.late ? "no answer" : error_line(e.text));
    f->blocks = NEED_CUDA_BUILD;
    f->todo = "install an older g++ and set NVCC_PREPEND_FLAGS=-ccbin=g++-13";
    d->nvcc = NULL;
}

void doctor_compilers(Doctor *d)
{
    const char *none[8];
    for (int i = 0; i < TOOLS; i++) {
        const char *variable = tool[i].variable;
        if (!strcmp(variable, "NVCC"))
            continue;
        find_tool(d, &tool[i],
                  !strcmp(variable, "CC")       ? d->cc
                  : !strcmp(variable, "MPICC")  ? d->mpicc
                  : !strcmp(variable, "MPIRUN") ? d->mpirun
                                                : none, 8);
        if (!strcmp(variable, "CC"))
            try_compiler(d);
    }
    find_nvcc(d);
    const char *nvrtc = check_nvrtc();
    Finding *f = doctor_add(d, DOCTOR_OK, "NVRTC", "%s",
                            nvrtc ? nvrtc : "not here: gen check takes nvcc, which is slower");
    if (nvrtc)
        doctor_fact(f, "version", nvrtc);
}

/* ---- libraries ---- */

typedef struct {
    const char *name, *header, *version, *link, *loads;
    int major;
    bool cuda;
    unsigned builds, runs;
    const char *package, *why;
} Library;

static const Library library[] = {
#define LIBRARY(name, header, version, link, loads, major, cuda, builds, runs, package, why) \
    {name, header, #version, link, loads, major, cuda, (builds) & ~NEED_GEN, runs, package, why},
#include "runtime/toolchain.def"
};
enum { LIBRARIES = sizeof library / sizeof *library };

/* Results of the compiler for a library. */
typedef struct {
    const char *version;         /* version in its header; NULL: no header */
    const char *bad;             /* linker error; NULL: it links */
} Built;

/* The macros of a version when cc is through with them: quotes and blanks are left out, 13000 is
 * 13.0. */
static const char *plain_version(const char *text)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (size_t n = strcspn(text, "\r\n"); n > 0; n--, text++)
        if (!strchr("\" \t()", *text))
            str_print(&s, "%c", *text);
    if (!strchr(s.text, '.') && atoi(s.text) >= 1000)
        return text_print("%d.%d", atoi(s.text) / 1000, atoi(s.text) % 1000 / 10);
    return *s.text >= '0' && *s.text <= '9' ? s.text : "of unknown version";
}

/* first .. last - 1 in one call; false: the compiler says there is an error. */
static bool ask_headers(const Doctor *d, int first, int last, Built *b)
{
    Str source = {0};
    for (int i = first; i < last; i++) {
        b[i].version = NULL;
        if (!library[i].cuda || d->cuda)
            str_print(&source,
                      "#if __has_include(<%s>)\n#define PCRE2_CODE_UNIT_WIDTH 8\n#include <%s>\n"
                      "diecast_doctor %d %s\n#undef PCRE2_CODE_UNIT_WIDTH\n#endif\n",
                      library[i].header, library[i].header, i, library[i].version);
    }
    if (!source.n)
        return true;
    const char *const paths[] = {"-", d->cuda ? text_print("-I%s/include", d->cuda) : NULL, NULL};
    Ended e = process_run(with(d->cc, "-E -P -x c -I/usr/include/lua5.4", paths), source.text,
                          3 * tool_seconds * doctor_scale(d));
    static const char mark[] = "diecast_doctor ";
    for (const char *at = e.text; (at = strstr(at, mark)); at++) {
        char *end;
        long i = strtol(at + strlen(mark), &end, 10);
        if (i >= first && i < last)
            b[i].version = plain_version(end + strspn(end, " "));
    }
    return !e.code && !e.late;
}

/* NULL, or the line that says why a program with libraries first .. last - 1 that have headers is
 * not made. */
static const char *link_all(const Doctor *d, int first, int last, const Built *b)
{
    const char *words[LIBRARIES + 4] = {"-o", text_print("%s/linked", scratch_folder())};
    int n = 2;
    if (d->cuda)
        words[n++] = text_print("-L%s/lib64", d->cuda);
    for (int i = first; i < last; i++)
        if (b[i].version)
            words[n++] = text_print("-l%s", library[i].link);
    Ended e = process_run(with(d->cc, "-x c - -x none -Wl,--no-as-needed", words),
                          "int main(void) { return 0; }\n", 3 * tool_seconds * doctor_scale(d));
    const char *why = strstr(e.text, "ld: ");
    return !e.code && !e.late ? NULL : e.late ? "no answer" : first_line(why ? why + 4 : e.text);
}

/* NULL, or why programs cannot load any of the names between bars; cuda: the toolkit's folder is
 * searched first. */
static const char *load(const Doctor *d, const char *names, bool cuda)
{
    char *list = text_copy(names), *save = NULL;
    const char *why = NULL;
    for (char *name = strtok_r(list, "|", &save); name; name = strtok_r(NULL, "|", &save)) {
        const bool theirs = cuda && d->cuda;
        const char *const path[] = {theirs ? text_print("%s/lib64/%s", d->cuda, name) : name,
                                    name};
        for (int i = 0; i < 2; i++) {
            void *opened = dlopen(path[i], RTLD_LAZY | RTLD_LOCAL);
            if (opened) {
                dlclose(opened);
                return NULL;
            }
            const char *loader = dlerror();
            if (!why || strstr(why, "No such file"))
                why = text_copy(loader ? loader : "");
        }
    }
    return why;
}

static void judge_library(Doctor *d, const Library *l, const Built *b)
{
    const char *bad = load(d, l->loads, l->cuda);
    Finding *f;
    if (d->cc[0] && !b->version)
        f = doctor_add(d, DOCTOR_MISSING, l->name, "no header %s%s; %s", l->header,
                       bad ? "" : " (programs built elsewhere load it)", l->why);
    else if (d->cc[0] && b->bad)
        f = doctor_add(d, DOCTOR_MISSING, l->name, "%s, but does not link: %s; %s", b->version,
                       b->bad, l->why);
    else if (bad)
        f = doctor_add(d, DOCTOR_MISSING, l->name, "does not load: %s; %s", bad, l->why);
    else if (b->version && l->major && atoi(b->version) != l->major)
        f = doctor_add(d, DOCTOR_MISSING, l->name, "version %s, must be %d; %s", b->version,
                       l->major, l->why);
    else {
        f = doctor_add(d, DOCTOR_OK, l->name, "%s; %s",
                       b->version ? b->version : "there, without a compiler to ask more",
                       l->why);
        if (b->version)
            doctor_fact(f, "version", b->version);
        return;
    }
    f->package = l->package;
    f->blocks = l->builds | (bad ? l->runs : 0);
    f->state = f->blocks ? DOCTOR_MISSING : DOCTOR_WARNING;
}

/* A library that programs open when they need it. */
typedef struct {
    const char *name, *loads;
    bool cuda;
    unsigned runs;
    const char *package, *why;
} Loaded;

static void judge_loaded(Doctor *d, const Loaded *l)
{
    const char *why = load(d, l->loads, l->cuda);
    Finding *f = doctor_add(d, !why ? DOCTOR_OK : l->runs ? DOCTOR_MISSING : DOCTOR_WARNING,
                            l->name, "%s%s; %s", l->loads,
                            why ? text_print(" does not load: %s", why) : "", l->why);
    f->package = l->package;
    f->blocks = why ? l->runs : 0;
}

void doctor_libraries(Doctor *d)
{
    static const Loaded loaded[] = {
#define LOADED(name, loads, cuda, runs, package, why) {name, loads, cuda, runs, package, why},
#include "runtime/toolchain.def"
    };
    Built b[LIBRARIES] = {0};
    if (d->cc[0] && !ask_headers(d, 0, LIBRARIES, b))
        for (int i = 0; i < LIBRARIES; i++)
            if (!ask_headers(d, i, i + 1, b))
                b[i].version = NULL;
    if (d->cc[0] && link_all(d, 0, LIBRARIES, b))
        for (int i = 0; i < LIBRARIES; i++)
            b[i].bad = link_all(d, i, i + 1, b);
    for (int i = 0; i < LIBRARIES; i++) {
        judge_library(d, &library[i], &b[i]);
        if (!strcmp(library[i].name, "NCCL"))
            d->nccl = b[i].version && !b[i].bad;
    }
    for (size_t i = 0; i < sizeof loaded / sizeof *loaded; i++)
        if (!loaded[i].runs || (d->wanted && (d->wanted->wants & loaded[i].runs)))
            judge_loaded(d, &loaded[i]);
}
