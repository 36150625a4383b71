/* doctor_gpus.c -- gen doctor: driver, GPUs, their processes and their links.
 *
 * In:    NVML, CUDA_VISIBLE_DEVICES, devices of /sys below a root.
 * Out:   findings; in Doctor, the GPUs visible to programs.
 * Keeps: no GPU is woken up or used. */
#define _GNU_SOURCE
#include "gen/tools/doctor.h"
#include "runtime/nvml_cuda.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GPUS = DOCTOR_GPUS, MAX_PROCESSES = 64, LINKS = 18, SETS = 16 };

/* ---- NVML queries that only gen makes -------------------------------------------------------- */

typedef struct { unsigned pid; unsigned long long bytes; unsigned instance, compute; } Process;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
} Pci;

#define FUNCTIONS(F)                                                                            \
    F(nvmlSystemGetCudaDriverVersion_v2, (int *version))                                        \
    F(nvmlDeviceGetComputeRunningProcesses_v3, (NvmlDevice of, unsigned *n, Process *to))       \
    F(nvmlDeviceGetTopologyCommonAncestor, (NvmlDevice a, NvmlDevice b, int *level))            \
    F(nvmlDeviceGetP2PStatus, (NvmlDevice a, NvmlDevice b, int what, int *status))              \
    F(nvmlDeviceGetNvLinkState, (NvmlDevice of, unsigned link, int *active))                    \
    F(nvmlDeviceGetNvLinkRemotePciInfo_v2, (NvmlDevice of, unsigned link, Pci *to))

static struct {
#define F(name, arguments) int (*name) arguments;
    FUNCTIONS(F)
#undef F
} call;

#define ASK(name, ...) (call.name && call.name(__VA_ARGS__) == 0)

static void find_functions(void)
{
    void *found;
#define F(name, arguments)              \
    found = nvml_function(#name);       \
    memcpy(&call.name, &found, sizeof found);
    FUNCTIONS(F)
#undef F
}

typedef struct {
    NvmlDevice device;
    NvmlAbout about;
    NvmlUse use;
} Gpu;

/* ---- links ----------------------------------------------------------------------------------- */

/* From near to far: NVML's levels of the common ancestor, nvidia-smi's words, meanings. */
static const struct { int level; const char *word, *about; } way[] = {
    {-1, "NV", "NVLink, with the number of links"},
    {0, "ON", "one board"},
    {10, "PIX", "one PCIe switch"},
    {20, "PXB", "several PCIe switches"},
    {30, "PHB", "the CPU's PCIe bridge"},
    {40, "NODE", "bridges of one socket"},
    {50, "SYS", "from socket to socket"},
    {-2, "?", "the driver does not say"},
};
enum {
    WAYS = sizeof way / sizeof *way,
    NVLINK = 0,
    SAME_SOCKET = 5,
    UNKNOWN = WAYS - 1,
    STEP = 64
};

/* Number of NVLinks from a to b, direct or through a switch. */
static int lanes(const Gpu *a, const Gpu *b)
{
    enum { BY_NVLINK = 2 };
    int joined = -1, active, direct = 0, all = 0;
    Pci far;
    if (ASK(nvmlDeviceGetP2PStatus, a->device, b->device, BY_NVLINK, &joined) && joined != 0)
        return 0;
    for (unsigned i = 0; i < LINKS; i++) {
        if (!ASK(nvmlDeviceGetNvLinkState, a->device, i, &active) || !active)
            continue;
        all++;
        direct += ASK(nvmlDeviceGetNvLinkRemotePciInfo_v2, a->device, i, &far) &&
                  !strncasecmp(far.bus_id, b->about.bus, sizeof b->about.bus);
    }
    return direct ? direct : joined == 0 ? all : 0;
}

/* Distance: STEP * row of `way`, less the number of links. */
static int cost_of(const Gpu *a, const Gpu *b)
{
    int level = -2, n = lanes(a, b), i = NVLINK + 1;
    if (n)
        return NVLINK * STEP + STEP - 1 - (n < STEP ? n : STEP - 1);
    if (!ASK(nvmlDeviceGetTopologyCommonAncestor, a->device, b->device, &level))
        level = -2;
    while (i < UNKNOWN && way[i].level != level)
        i++;
    return i * STEP;
}

static char *way_text(int cost)
{
    int i = cost / STEP;
    return i == NVLINK ? text_print("NV%d", STEP - 1 - cost % STEP) : text_copy(way[i].word);
}

/* Farthest pair of the set and the sum over pairs. */
static int64_t set_cost(const int *link, int n, unsigned set)
{
    int64_t worst = -1, sum = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            if (set >> a & 1 && set >> b & 1) {
                worst = link[a * n + b] > worst ? link[a * n + b] : worst;
                sum += link[a * n + b];
            }
    return worst * 1000000 + sum;
}

/* Stores in `best` the k of n GPUs, n at most 16, whose farthest pair is nearest, then whose sum of
 * distances is least; the first of equal sets. link[a * n + b]: distance, 0 for the nearest. */
static void best_set(const int *link, int n, int k, int *best)
{
    unsigned found = 0;
    int64_t least = INT64_MAX;
    if (n > SETS || k > n)
        bug("%d of %d GPUs: at most %d", k, n, SETS);
    /* of equal sets the one with the lowest numbers is first */
    for (unsigned set = 0; set < 1u << n; set++)
        if (__builtin_popcount(set) == k && set_cost(link, n, set) < least) {
            least = set_cost(link, n, set);
            found = set;
        }
    for (int i = 0, at = 0; i < n; i++)
        if (found >> i & 1)
            best[at++] = i;
}

/* Number of slow pairs among the first k: across sockets, or by PCIe while others have NVLink. */
static void judge_pairs(Doctor *d, const int *link, int n, int k)
{
    Str pairs = {0};
    bool nvlink = false;
    int split = 0, best[SETS] = {0};
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            nvlink |= link[a * n + b] / STEP == NVLINK;
    for (int a = 0; a < k; a++)
        for (int b = a + 1; b < k; b++) {
            int i = link[a * n + b] / STEP;
            if (i <= SAME_SOCKET && !(nvlink && i != NVLINK))
                continue;
            if (split++ < 12)
                str_print(&pairs, "%s%d-%d (%s)", split > 1 ? ", " : "", d->sees[a], d->sees[b],
                          way_text(link[a * n + b]));
        }
    if (!split)
        return;
    Finding *f = doctor_add(d, DOCTOR_WARNING, "split pairs",
                            "GPUs %s%s: sums of gradients take the way of the slowest",
                            pairs.text, split > 12 ? ", ..." : "");
    doctor_number(f, "pairs", split);
    if (n > k && n <= SETS) {
        best_set(link, n, k, best);
        unsigned mine = (1u << k) - 1, theirs = 0;
        Str list = {0};
        for (int i = 0; i < k; i++) {
            theirs |= 1u << best[i];
            str_print(&list, "%s%d", i ? "," : "", d->sees[best[i]]);
        }
        if (set_cost(link, n, theirs) < set_cost(link, n, mine))
            f->todo = text_print("CUDA_VISIBLE_DEVICES=%s is nearer", list.text);
    }
}

static void find_links(Doctor *d, const Gpu *gpu, int k)
{
    int n = d->ngpus;
    bool used[WAYS] = {false};
    int *link = arena_new(sizeof *link * (size_t)(n * n + 1));
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            link[a * n + b] = link[b * n + a] = cost_of(&gpu[d->sees[a]], &gpu[d->sees[b]]);
    for (int a = 0; a < n; a++) {
        Str row = {0};
        Finding *f = doctor_add(d, DOCTOR_OK, text_print("links of %d", d->sees[a]), "%s", "");
        cJSON *cells = cJSON_AddArrayToObject(f->facts, "to");
        for (int b = 0; b < n; b++) {
            const char *cell = a == b ? "X" : way_text(link[a * n + b]);
            str_print(&row, "%s%-5s", b ? " " : "", cell);
            cJSON_AddItemToArray(cells, cJSON_CreateString(cell));
            used[link[a * n + b] / STEP] |= a != b;
        }
        while (row.text[row.n - 1] == ' ')
            row.text[--row.n] = 0;
        f->text = row.text;
    }
    Str legend = {0};
    for (int i = 0; i < WAYS; i++)
        if (used[i])
            str_print(&legend, "%s%s %s", legend.n ? "; " : "", way[i].word, way[i].about);
    doctor_add(d, DOCTOR_OK, "links", "%s", legend.text);
    judge_pairs(d, link, n, k);
}

/* ---- GPUs visible to programs ---------------------------------------------------------------- */

int doctor_visible(const char *text, const char *const *uuid, int n, int *sees, int max)
{
    int count = 0;
    if (!text)
        for (; count < n && count < max; count++)
            sees[count] = count;
    for (const char *p = text; p && *p && count < max;) {
        p += strspn(p, " ");
        size_t length = strcspn(p, ", ");
        char *end;
        int number = -1;
        if (length && *p >= '0' && *p <= '9') {
            number = (int)strtol(p, &end, 10);
            if (end != p + length)
                break;
        } else
            for (int i = 0; i < n && number < 0 && length > 4; i++)
                if (!strncmp(uuid[i], p, length))
                    number = i;
        if (number < 0 || number >= n)      /* as in CUDA, later ones are ignored */
            break;
        for (int i = 0; i < count; i++)
            if (sees[i] == number)
                return 0;                    /* listed twice: none is visible */
        sees[count++] = number;
        p += length;
        p += strspn(p, " ,");
    }
    return count;
}

/* Processes that use its memory, "pid 12: 1.0 GiB"; "": none. */
static const char *processes(const Gpu *g, int *n)
{
    static Process list[MAX_PROCESSES];
    unsigned count = MAX_PROCESSES;
    Str s = {0};
    str_print(&s, "%s", "");
    if (!ASK(nvmlDeviceGetComputeRunningProcesses_v3, g->device, &count, list))
        count = 0;
    *n = (int)(count < MAX_PROCESSES ? count : MAX_PROCESSES);
    for (int i = 0; i < *n; i++)
        if (i < 4)
            str_print(&s, "%spid %u%s", i ? ", " : "", list[i].pid,
                      list[i].bytes < 1ull << 50
                          ? text_print(": %s", text_bytes((int64_t)list[i].bytes))
                          : "");
    return s.text;
}

static void show_gpu(Doctor *d, const Gpu *g, int number, bool seen)
{
    int others = 0;
    const char *list = processes(g, &others);
    const char *target = NULL;
    for (int i = 0; i < target_count() && !target; i++)
        if (target_row(i)->capability &&
            target_row(i)->capability == 10 * g->about.major + g->about.minor)
            target = target_row(i)->name;
    int64_t left = g->use.total - g->use.used;
    Finding *f =
        doctor_add(d, others || !target ? DOCTOR_WARNING : DOCTOR_OK, text_print("GPU %d", number),
                   "%s, %s, %s free, compute capability %d.%d%s, %s%s%s%s",
                   *g->about.name ? g->about.name : "?", text_bytes(g->use.total), text_bytes(left),
                   g->about.major, g->about.minor,
                   target ? text_print(" (%s)", target) : ", for which gen has no target",
                   *g->about.bus ? g->about.bus : "?",
                   seen ? "" : ", hidden by CUDA_VISIBLE_DEVICES",
                   others
                       ? text_print("; in use by %d process%s: ", others, others == 1 ? "" : "es")
                       : "",
                   list);
    f->todo = others ? "wait for them, or take others by CUDA_VISIBLE_DEVICES" : NULL;
    doctor_number(f, "number", number);
    doctor_fact(f, "name", g->about.name);
    doctor_fact(f, "uuid", g->about.uuid);
    doctor_fact(f, "bus", g->about.bus);
    doctor_number(f, "bytes", (double)g->use.total);
    doctor_number(f, "free_bytes", (double)left);
    doctor_fact(f, "compute_capability", text_print("%d.%d", g->about.major, g->about.minor));
    doctor_number(f, "processes", others);
    cJSON_AddBoolToObject(f->facts, "visible", seen);
}

/* ---- GPU requirements of a recipe ------------------------------------------------------------ */

static Finding *in_the_way(Doctor *d, const char *what, const char *text)
{
    Finding *f = doctor_add(d, DOCTOR_MISSING, what, "%s", text);
    f->blocks = NEED_CUDA_RUN | NEED_NCCL_RUN;
    return f;
}

static void judge_recipe(Doctor *d, const Gpu *gpu, int ranks)
{
    const Wanted *w = d->wanted;
    if (d->ngpus < ranks && d->ngpus)
        in_the_way(d, "number",
                   text_print("the recipe needs %d GPUs here, programs see %d", ranks, d->ngpus))
            ->todo =
            text_print("gpus=%d, more machines, or another CUDA_VISIBLE_DEVICES", d->ngpus);
    for (int i = 0; i < ranks && i < d->ngpus; i++) {
        const Gpu *g = &gpu[d->sees[i]];
        const char *of = text_print("GPU %d", d->sees[i]);
        const int64_t need = w->rank_bytes + w->target->reserve, left = g->use.total - g->use.used;
        if (d->capability[i] != w->target->capability)
            in_the_way(d, of,
                       text_print("has compute capability %d.%d, target %s needs %d.%d",
                                  g->about.major, g->about.minor, w->target->name,
                                  w->target->capability / 10, w->target->capability % 10))
                ->todo = text_print("target=sm_%d, if gen list targets has it, or other GPUs by "
                                    "CUDA_VISIBLE_DEVICES",
                                    d->capability[i]);
        if (g->use.total && need > left)
            in_the_way(d, of,
                       text_print("has %s free of %s, the plan takes %s and the context about %s",
                                  text_bytes(left), text_bytes(g->use.total),
                                  text_bytes(w->rank_bytes), text_bytes(w->target->reserve)))
                ->todo =
                need > g->use.total ? w->remedy(w->config, g->use.total) : "end what else uses it";
    }
}

/* ---- the driver ------------------------------------------------------------------------------ */

/* NVIDIA's display and 3D devices on the PCI bus. */
static int cards_on_bus(const Doctor *d)
{
    const char *name[1024];
    int cards = 0, n = doctor_names(d, "/sys/bus/pci/devices", name, 1024);
    for (int i = 0; i < n; i++) {
        const char *vendor = doctor_read(d, text_print("/sys/bus/pci/devices/%s/vendor", name[i]));
        const char *class = doctor_read(d, text_print("/sys/bus/pci/devices/%s/class", name[i]));
        cards += vendor && class && !strcmp(vendor, "0x10de") && !strncmp(class, "0x03", 4);
    }
    return cards;
}

static void judge_driver(Doctor *d)
{
    int version = 0;
    if (!ASK(nvmlSystemGetCudaDriverVersion_v2, &version))
        version = 0;
    int major = d->nvcc_version ? atoi(d->nvcc_version) : 0;
    Finding *f = doctor_add(d, DOCTOR_OK, "driver", "%s%s",
                            *nvml_driver() ? nvml_driver() : "of unknown version",
                            version ? text_print(", for CUDA up to %d.%d", version / 1000,
                                                 version % 1000 / 10)
                                    : "");
    doctor_fact(f, "version", nvml_driver());
    if (version)
        doctor_fact(f, "cuda", text_print("%d.%d", version / 1000, version % 1000 / 10));
    if (version && major > version / 1000)
        in_the_way(d, "driver",
                   text_print("is for CUDA %d, nvcc makes programs of CUDA %d", version / 1000,
                              major))
            ->todo = "a newer driver, or an older toolkit";
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!cuda)
        in_the_way(d, "libcuda.so.1", "does not load, so no program computes")->todo =
            "in a container: --gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility";
    d->gpus_run = cuda != NULL;
}

void doctor_gpus(Doctor *d)
{
    static Gpu gpu[MAX_GPUS];
    const char *uuid[MAX_GPUS] = {NULL}, *visible = doctor_env(d, "CUDA_VISIBLE_DEVICES");
    const bool cuda = d->wanted && d->wanted->target->capability;
    const char *why = nvml_open();
    if (why) {
        int cards = cards_on_bus(d);
        in_the_way(d, "driver",
                   text_print("%s; CUDA programs do not run here%s", why,
                              cards ? text_print(", though %d NVIDIA card%s on the bus", cards,
                                                 cards == 1 ? " is" : "s are")
                                    : ""))
            ->todo = cards ? "install NVIDIA's driver: nvidia-smi has to answer"
                           : "a machine with an NVIDIA GPU and its driver";
        return;
    }
    find_functions();
    judge_driver(d);
    int all = nvml_count(), ranks = d->wanted ? doctor_local_ranks(d) : 0;
    bool alike = true;
    all = all < MAX_GPUS ? all : MAX_GPUS;
    for (int i = 0; i < all; i++) {
        gpu[i].device = nvml_device(i);
        nvml_about(gpu[i].device, &gpu[i].about);
        nvml_use(gpu[i].device, &gpu[i].use);
        uuid[i] = gpu[i].about.uuid;
        alike &= !strcmp(gpu[i].about.name, gpu[0].about.name);
    }
    d->ngpus = doctor_visible(visible, uuid, all, d->sees, MAX_GPUS);
    for (int i = 0; i < all; i++) {
        bool seen = false;
        for (int k = 0; k < d->ngpus; k++)
            seen |= d->sees[k] == i;
        show_gpu(d, &gpu[i], i, seen);
    }
    for (int i = 0; i < d->ngpus; i++) {
        const Gpu *g = &gpu[d->sees[i]];
        d->capability[i] = 10 * g->about.major + g->about.minor;
        d->gpu_memory = !i || g->use.total < d->gpu_memory ? g->use.total : d->gpu_memory;
    }
    if (!d->ngpus)
        in_the_way(d, "number",
                   all ? text_print("CUDA_VISIBLE_DEVICES=%s shows none of the %d", visible, all)
                       : "the driver finds no GPU")
            ->todo =
            all ? text_print("unset it, or numbers from 0 to %d", all - 1) : "nvidia-smi says why";
    if (!alike && !doctor_env(d, "CUDA_DEVICE_ORDER"))
        doctor_add(d, DOCTOR_WARNING, "order",
                   "the cards differ: CUDA counts the fastest first, not as here")
            ->todo = "export CUDA_DEVICE_ORDER=PCI_BUS_ID";
    if (d->ngpus > 1)
        find_links(d, gpu, cuda && ranks < d->ngpus ? ranks : d->ngpus);
    else if (d->ngpus && !d->wanted)
        doctor_add(d, DOCTOR_OK, "links", "one GPU: nothing to join")->blocks = NEED_NCCL_RUN;
    if (cuda)
        judge_recipe(d, gpu, ranks);
}
