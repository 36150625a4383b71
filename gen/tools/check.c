/* check.c -- `gen check`: compiles a recipe's CUDA kernels and reports their resources.
 *
 * In:    the graph after plan.
 * Out:   a row per kernel: registers, shared memory, spills, occupancy.
 * Keeps: writes nothing to disk but cubins that are asked for; the numbers do not depend on this
 *        machine's GPU.
 * Method: NVRTC, one kernel file at a time; without it, nvcc on the emitted step.cu. Registers and
 *         spills are from the compiler's log, launch bounds and dynamic shared memory from PTX. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/tools/answer.h"
#include "gen/tools/process.h"
#include "gen/tools/tools.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_KERNELS = 512,
    NO_BOUND = 1024              /* threads per block of a kernel without launch bounds */
};

typedef struct {
    char *entry;                 /* mangled name in PTX */
    int registers, threads;
    int64_t fixed, dynamic;      /* bytes of shared memory; dynamic -1: unknown */
    int64_t stores, loads;       /* bytes of spilled registers */
} Usage;

typedef struct { int n; Usage list[MAX_KERNELS]; } Table;

static Table used;

/* Kernels that are allowed to spill. */
static const struct { const char *kernel; int64_t bytes; } spill_row[] = {
#define KERNEL(...)
#define SPILLS(kernel, bytes, why) {#kernel, bytes},
#include "kernels/kernels.def"
#undef KERNEL
    {NULL, 0}
};

/* ---- the assembler's log --------------------------------------------------------------------- */

static int64_t number_before(const char *line, const char *what)
{
    const char *at = strstr(line, what);
    while (at && at > line && at[-1] == ' ')
        at--;
    while (at && at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at ? strtoll(at, NULL, 10) : 0;
}

/* Finds a kernel by name, so that one included by several files counts once. */
static Usage *usage_of(const char *entry)
{
    int i = 0;
    while (i < used.n && strcmp(used.list[i].entry, entry))
        i++;
    if (i == MAX_KERNELS)
        bug("more than %d kernels", MAX_KERNELS);
    used.n += i == used.n;
    return &used.list[i];
}

/* Adds a kernel of the log; spills of functions that an entry calls count as the entry's. dynamic:
 * as known so far. */
static void read_log(const char *log, int64_t dynamic)
{
    static const char begin[] = "Compiling entry function '";
    Usage *u = NULL;
    for (const char *p = log; *p;) {
        size_t len = strcspn(p, "\n");
        char *line = text_print("%.*s", (int)len, p), *entry = strstr(line, begin);
        if (entry) {
            entry += strlen(begin);
            entry[strcspn(entry, "'")] = 0;
            u = usage_of(entry);
            *u = (Usage){.entry = entry, .threads = NO_BOUND, .dynamic = dynamic};
        } else if (u && strstr(line, "bytes spill stores")) {
            u->stores += number_before(line, "bytes spill stores");
            u->loads += number_before(line, "bytes spill loads");
        } else if (u && strstr(line, ": Used ")) {
            u->registers = (int)number_before(line, "registers");
            u->fixed = number_before(line, "bytes smem");
        }
        p += len + (p[len] == '\n');
    }
}

/* ---- the PTX --------------------------------------------------------------------------------- */

static const char *plain_arguments(Str *s, const char *p);

/* Adds a template argument of a mangled name, a number or a type. Returns what follows; NULL:
 * another kind. */
static const char *plain_argument(Str *s, const char *p)
{
    char *name;
    const bool number = *p == 'L';
    p += number;
    const size_t length = strtoul(p, &name, 10);
    if (length > strlen(name) || (!length && (!*p || !strchr("bfijlmxy", *p))))
        return NULL;
    if (!number && length)
        str_print(s, "%.*s", (int)length, name);
    else if (!number)
        str_print(s, "%s", *p == 'f' ? "float" : *p == 'b' ? "bool" : "int");
    p = length ? name + length : p + 1;
    if (!number)
        return *p == 'I' ? plain_arguments(s, p + 1) : p;
    const bool negative = *p == 'n';
    const size_t digits = strcspn(p + negative, "E");
    str_print(s, "%s%.*s", negative ? "-" : "", (int)digits, p + negative);
    return p + negative + digits + 1;
}

/* Adds "<8, float>" of "Li8EfE". Returns what follows; NULL, and "<8, ...>", after another kind. */
static const char *plain_arguments(Str *s, const char *p)
{
    const char *comma = "<";
    for (; p && *p && *p != 'E'; comma = ", ") {
        str_print(s, "%s", comma);
        p = plain_argument(s, p);
    }
    str_print(s, p ? ">" : "...>");
    return p ? p + 1 : NULL;
}

/* "rmsnorm_fwd_kernel<8, 1>" of "_Z18rmsnorm_fwd_kernelILi8ELb1EEvPf"; other names as they are. */
static char *plain_name(const char *entry)
{
    char *end;
    if (strncmp(entry, "_Z", 2))
        return text_copy(entry);
    size_t n = strtoul(entry + 2, &end, 10);
    if (!n || strlen(end) < n)
        return text_copy(entry);
    Str s = {0};
    str_print(&s, "%.*s", (int)n, end);
    if (end[n] == 'I')
        plain_arguments(&s, end + n + 1);
    return s.text;
}

/* Compares names without template arguments. */
static bool is_kernel(const Usage *u, const char *name)
{
    const char *plain = plain_name(u->entry);
    return strcspn(plain, "<") == strlen(name) && !strncmp(plain, name, strlen(name));
}

/* Reads launch bounds and dynamic shared memory (SHARED_BYTES of kernels/cuda/types.cuh) from
 * PTX. */
static void read_ptx(const char *ptx)
{
    static const char begin[] = ".entry ", end[] = "_shared = ";
    Usage *u = NULL;
    for (const char *p = ptx; *p;) {
        size_t len = strcspn(p, "\n");
        char *line = text_print("%.*s", (int)len, p);
        char *entry = strstr(line, begin), *shared = strstr(line, end);
        int x = 1, y = 1, z = 1;
        if (entry) {
            entry += strlen(begin);
            entry[strcspn(entry, "(")] = 0;
            u = usage_of(entry);
        } else if (u && sscanf(line, ".maxntid %d, %d, %d", &x, &y, &z) > 0)
            u->threads = x * y * z;
        else if (shared && strstr(line, ".global ")) {
            *shared = 0;
            for (int k = 0; k < used.n; k++)
                if (is_kernel(&used.list[k], strrchr(line, ' ') + 1))
                    used.list[k].dynamic = strtoll(shared + strlen(end), NULL, 10);
        }
        p += len + (p[len] == '\n');
    }
}

static const char *folder;       /* folder of the compilation; removed at exit */

/* ---- compilers ------------------------------------------------------------------------------- */

typedef struct {
    void *library;
    char *folder;                /* folder in which it was found */
    int (*version)(int *, int *);
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*ptx_size)(void *, size_t *);
    int (*ptx)(void *, char *);
    int (*cubin_size)(void *, size_t *);
    int (*cubin)(void *, char *);
    int (*destroy)(void **);
} Nvrtc;

static bool nvrtc_open(Nvrtc *n)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !n->library; i++)
        n->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return false;
    const struct { const char *name; void *at; } call[] = {
        {"nvrtcVersion", &n->version},           {"nvrtcCreateProgram", &n->create},
        {"nvrtcCompileProgram", &n->compile},    {"nvrtcGetProgramLogSize", &n->log_size},
        {"nvrtcGetProgramLog", &n->log},         {"nvrtcGetPTXSize", &n->ptx_size},
        {"nvrtcGetPTX", &n->ptx},                {"nvrtcDestroyProgram", &n->destroy},
        {"nvrtcGetCUBINSize", &n->cubin_size},   {"nvrtcGetCUBIN", &n->cubin}};
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        void *found = dlsym(n->library, call[i].name);
        if (!found)
            return false;
        memcpy(call[i].at, &found, sizeof found);
    }
    Dl_info info;
    void *inside;
    memcpy(&inside, &n->version, sizeof inside);
    char *path = dladdr(inside, &info) ? realpath(info.dli_fname, NULL) : NULL;
    n->folder = text_copy(path ? path : "/usr/lib/x");
    *strrchr(n->folder, '/') = 0;
    free(path);
    return true;
}

const char *check_nvrtc(void)
{
    Nvrtc n = {0};
    int major, minor;
    return nvrtc_open(&n) && !n.version(&major, &minor) ? text_print("%d.%d", major, minor) : NULL;
}

/* Finds the toolkit's headers: next to the library, then in the usual folders. */
static char *find_headers(const char *library)
{
    const char *home = getenv("CUDA_HOME");
    const char *const place[] = {
        text_print("%s/../include", library), text_print("%s/../../../include", library),
        text_print("%s/include", home ? home : "/usr/local/cuda"), "/usr/local/cuda/include",
        "/usr/include"};
    for (size_t i = 0; i < sizeof place / sizeof *place; i++)
        if (!access(text_print("%s/cuda_bf16.h", place[i]), R_OK))
            return text_copy(place[i]);
    return NULL;
}

/* Prints lines of the log that are not from the assembler. */
static void print_errors(const char *log)
{
    for (const char *p = log; *p;) {
        size_t n = strcspn(p, "\n");
        if (strncmp(p, "ptxas", 5) || strncmp(p, "ptxas info", 10))
            fprintf(answer_wanted() ? stderr : stdout, "%.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

static const char *precision_define(const Graph *g)
{
    const char *p = g->setting[SETTING_precision].text;
    return !strcmp(p, "bf16")   ? "#define ACT_BF16 1\n"
           : !strcmp(p, "fp16") ? "#define ACT_F16 1\n"
                                : "";
}

/* `#define KERNEL_name 1` of each kernel in use, and `#define KERNEL_name_word 1` where its op has
 * a word among its attributes: forms of one file that not every recipe has are compiled by them. */
static const char *kernel_defines(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->ngroups; j++) {
            const Group *group = &g->programs[i]->groups[j];
            const Op *op = &g->programs[i]->ops[group->first_op];
            const char *name = kernel_row[group->kernel].name;
            str_print(&s, "#define KERNEL_%s 1\n", name);
            for (int k = 0; k < op->nattr; k++)
                if (op->attr[k].type == ATTR_WORD)
                    str_print(&s, "#define KERNEL_%s_%s 1\n", name, op->attr[k].word);
        }
    return s.text;
}

/* Writes the program's machine code to a file for cuobjdump -sass. */
static void keep_cubin(const Nvrtc *n, void *program, const char *path)
{
    size_t size = 0;
    n->cubin_size(program, &size);
    char *cubin = arena_new(size + 1);
    if (!size || n->cubin(program, cubin))
        err((Loc){0}, "check: --cubins: NVRTC has no machine code for %s", path);
    file_write_if_changed(path, cubin, size, false);
}

/* Returns true if it compiled. */
static bool nvrtc_compile(const Nvrtc *n, const Graph *g, const char *headers, const char *file,
                          const char *cubins)
{
    /* in <>, not in the current folder */
    const char *text =
        text_print("%s%s%s#include <shape.h>\n#include <kernels/cuda/%s>\n", precision_define(g),
                   kernel_defines(g), emit_variant_lists(), file);
    const char *const option[] = {
        text_print("--gpu-architecture=%s", g->target->arch), "-std=c++20", "--ptxas-options=-v",
        text_print("-I%s", folder), text_print("-I%s/kernels/cuda", folder),
        text_print("-I%s", headers), text_print("-I%s/cccl", headers)};
    void *program;
    size_t size = 0;
    if (n->create(&program, text, file, 0, NULL, NULL))
        err((Loc){0}, "NVRTC takes no program");
    int status = n->compile(program, sizeof option / sizeof *option, option);
    n->log_size(program, &size);
    char *log = arena_new(size + 1);
    n->log(program, log);
    read_log(log, 0);
    if (status)
        print_errors(log);
    else if (!n->ptx_size(program, &size)) {
        char *ptx = arena_new(size + 1);
        n->ptx(program, ptx);
        read_ptx(ptx);
        if (cubins)
            keep_cubin(n, program,
                       text_print("%s/%.*s.cubin", cubins, (int)strcspn(file, "."), file));
    }
    n->destroy(&program);
    return !status;
}

static const char *find_nvcc(void)
{
    const char *nvcc = program_find("nvcc");
    return nvcc ? nvcc : program_find("/usr/local/cuda/bin/nvcc");
}

static const double nvcc_seconds = 3600;     /* limit for hangs */

static bool nvcc_compile(const char *nvcc, const Graph *g)
{
    enum { WORDS = 32 };
    char *flags = text_copy(g->target->cflags), *save = NULL;
    char *words[WORDS] = {text_copy(nvcc), "-cubin", "-std=c++20", "-Xptxas", "-v", "--keep"};
    int nwords = 6;
    for (char *f = strtok_r(flags, " ", &save); f && nwords < WORDS - 8;
         f = strtok_r(NULL, " ", &save))
        words[nwords++] = f;
    words[nwords++] = text_print("-I%s", folder);
    words[nwords++] = text_print("-DDIECAST_RANKS=%" PRId64, g->ranks);
    words[nwords++] = "--keep-dir";
    words[nwords++] = text_copy(folder);
    words[nwords++] = "-o";
    words[nwords++] = text_print("%s/step.cubin", folder);
    words[nwords++] = text_print("%s/step.cu", folder);
    Ended e = process_run(words, NULL, nvcc_seconds);
    if (e.code < 0)
        err((Loc){0}, "%s", e.text);
    int status = e.code || e.late;
    size_t n;
    char *ptx = status ? NULL : file_text(text_print("%s/step.ptx", folder), 1 << 28, &n);
    read_log(e.text, -1);
    if (status)
        print_errors(e.text);
    else if (ptx)
        read_ptx(ptx);
    return !status;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Blocks that a multiprocessor holds at a time: registers go to warps in units of 256, to blocks by
 * four warps; shared memory in units of 128 bytes. */
static int resident(const Target *t, const Usage *u)
{
    int64_t warps = up(u->threads, 32) / 32, most = t->threads_sm / (warps * 32);
    if (u->registers) {
        int64_t fit = t->registers_sm / up(u->registers * 32, 256) / 4 * 4 / warps;
        most = fit < most ? fit : most;
    }
    int64_t shared = up(u->fixed + (u->dynamic > 0 ? u->dynamic : 0) + BLOCK_SHARED, 128);
    int64_t fit = t->shared_sm / shared;
    return (int)(fit < most ? fit : most);
}

static int64_t may_spill(const Usage *u)
{
    for (int i = 0; spill_row[i].kernel; i++)
        if (is_kernel(u, spill_row[i].kernel))
            return spill_row[i].bytes;
    return 0;
}

/* Message if the kernel has a fault, else NULL. */
static const char *fault(const Target *t, const Usage *u)
{
    if (u->stores + u->loads > may_spill(u))
        return text_print("spills %" PRId64 " bytes; kernels.def allows %" PRId64,
                          u->stores + u->loads, may_spill(u));
    if (u->fixed + (u->dynamic > 0 ? u->dynamic : 0) > t->shared_block)
        return text_print("needs %" PRId64 " bytes of shared memory, a block has %d",
                          u->fixed + u->dynamic, t->shared_block);
    if (!resident(t, u))
        return "does not fit a multiprocessor";
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(plain_name(((const Usage *)a)->entry), plain_name(((const Usage *)b)->entry));
}

static int faults_of(const Target *t)
{
    int faults = 0;
    for (int i = 0; i < used.n; i++)
        faults += fault(t, &used.list[i]) != NULL;
    return faults;
}

static void answer_table(const Target *t, cJSON *list)
{
    for (int i = 0; i < used.n; i++) {
        const Usage *u = &used.list[i];
        cJSON *o = answer_item(list);
        answer_text(o, "name", plain_name(u->entry));
        answer_text(o, "entry", u->entry);
        answer_int(o, "registers", u->registers);
        answer_int(o, "spilled_bytes", u->stores + u->loads);
        answer_int(o, "shared_bytes", u->fixed);
        if (u->dynamic < 0)
            answer_text(o, "shared_bytes_dynamic", NULL);
        else
            answer_int(o, "shared_bytes_dynamic", u->dynamic);
        answer_int(o, "threads", u->threads);
        answer_int(o, "blocks_resident", resident(t, u));
        answer_text(o, "fault", fault(t, u));
    }
}

static void print_table(const Target *t)
{
    int width = 6;
    for (int i = 0; i < used.n; i++) {
        int n = (int)strlen(plain_name(used.list[i].entry));
        width = n > width ? n : width;
    }
    printf("%-*s  registers  spilled   static  dynamic  threads  blocks/SM  occupancy\n", width,
           "kernel");
    for (int i = 0; i < used.n; i++) {
        const Usage *u = &used.list[i];
        int blocks = resident(t, u);
        printf("%-*s  %9d  %7" PRId64 "  %7" PRId64 "  %7s  %7d  %9d  %8.0f%%\n", width,
               plain_name(u->entry), u->registers, u->stores + u->loads, u->fixed,
               u->dynamic < 0 ? "-" : text_print("%" PRId64, u->dynamic), u->threads, blocks,
               100.0 * blocks * (double)up(u->threads, 32) / t->threads_sm);
    }
    for (int i = 0; i < used.n; i++)
        if (fault(t, &used.list[i]))
            printf("%s %s\n", plain_name(used.list[i].entry), fault(t, &used.list[i]));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool any_spills(void)
{
    for (int i = 0; i < used.n; i++)
        if (used.list[i].stores + used.list[i].loads)
            return true;
    return false;
}

/* The program's own compiler decides about spills: takes nvcc's numbers for kernels that spill with
 * NVRTC. */
static void ask_nvcc(const char *nvcc, const Graph *g)
{
    static Table before;
    before = used;
    used.n = 0;
    if (nvcc_compile(nvcc, g))
        for (int i = 0; i < before.n; i++)
            for (int k = 0; k < used.n; k++) {
                Usage *u = &before.list[i];
                const Usage *v = &used.list[k];
                if (u->stores + u->loads && !strcmp(plain_name(u->entry), plain_name(v->entry)))
                    u->registers = v->registers, u->stores = v->stores, u->loads = v->loads;
            }
    used = before;
}

/* Text instead of a table; why: reason, NULL if kernels were checked. */
static void say(const char *recipe, const Target *t, const char *why, const char *by, double took)
{
    if (!answer_wanted()) {
        if (why)
            printf("%s: %s\n", recipe, why);
        return;
    }
    cJSON *o = answer_new();
    answer_text(o, "recipe", recipe);
    answer_text(o, "arch", *t->arch ? t->arch : NULL);
    answer_bool(o, "checked", !why);
    answer_text(o, "why", why);
    answer_text(o, "compiler", by);
    answer_float(o, "seconds", took);
    cJSON *list = answer_list(o, "kernels");
    if (!why)
        answer_table(t, list);
    answer_int(o, "faults", why ? 0 : faults_of(t));
    answer_print(o);
}

void check_nothing(const char *recipe, const Target *t)
{
    say(recipe, t, text_print("target %s has no CUDA kernels", t->name), NULL, 0);
}

/* Returns gen's exit status. */
int check_kernels(const Graph *g, bool insist, bool by_nvcc, const char *cubins)
{
    if (cubins && by_nvcc)
        err((Loc){0}, "check: --cubins is for NVRTC; leave out --nvcc");
    if (strcmp(g->target->backend, "cuda")) {
        check_nothing(g->setting[SETTING_recipe].text, g->target);
        return 0;
    }
    const Target *t = g->target;
    const char *recipe = g->setting[SETTING_recipe].text;
    Nvrtc nvrtc = {0};
    const char *nvcc = NULL, *headers = NULL;
    bool have = !by_nvcc && nvrtc_open(&nvrtc) && (headers = find_headers(nvrtc.folder));
    if (!have && cubins && find_nvcc())
        err((Loc){0}, "check: --cubins needs NVRTC (libnvrtc.so), which is not installed");
    if (!have && !(nvcc = find_nvcc())) {
        say(recipe, t, "kernels were not checked: neither NVRTC (libnvrtc.so) nor nvcc is "
                       "installed",
            NULL, 0);
        return insist;
    }
    double start = seconds();
    bool compiled = true;
    const char *by = "nvcc";
    folder = scratch_folder();
    emit_run(g, folder, false, false);
    used.n = 0;
    if (have) {
        int major = 0, minor = 0, n;
        const char *const *file = emit_kernel_files(g, &n);
        for (int i = 0; i < n; i++)
            compiled &= nvrtc_compile(&nvrtc, g, headers, file[i], cubins);
        nvrtc.version(&major, &minor);
        by = text_print("NVRTC %d.%d", major, minor);
        if (compiled && any_spills() && (nvcc = find_nvcc())) {
            ask_nvcc(nvcc, g);
            by = text_print("%s, spills by nvcc,", by);
        }
    } else
        compiled = nvcc_compile(nvcc, g);
    if (!compiled) {
        say(recipe, t, text_print("does not compile for %s by %s", t->arch, by), by,
            seconds() - start);
        return 1;
    }
    qsort(used.list, (size_t)used.n, sizeof *used.list, by_name);
    if (answer_wanted()) {
        say(recipe, t, NULL, by, seconds() - start);
        return faults_of(t) > 0;
    }
    print_table(t);
    const int faults = faults_of(t);
    printf("%s: %d kernels for %s by %s in %.1f s, %d at fault\n", g->setting[SETTING_recipe].text,
           used.n, g->target->arch, by, seconds() - start, faults);
    return faults > 0;
}
