/* nvml.c -- stands for libnvidia-ml.so.1: a machine as the file FAKE_NVML says, read at nvmlInit_v2.
 *
 * In:    lines `driver VERSION CUDA`, `gpu MAJOR MINOR TOTAL USED PROCESSES NAME` (GiB), `pair A B LEVEL LINKS` (links
 *        between them), `switch LINKS` (of every GPU, to a switch that joins all).  Levels as NVML's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 16 };

typedef struct Gpu {
    char name[96];
    int major, minor, processes;
    double total, used;
} Gpu;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Percent;
typedef struct { unsigned pid; unsigned long long bytes; unsigned instance, compute; } Process;
typedef struct { char legacy[16]; unsigned domain, bus, device, ids, subsystem; char bus_id[32]; } Pci;

static Gpu gpu[GPUS];
static int n, cuda, by_switch, level[GPUS][GPUS], lanes[GPUS][GPUS];
static char driver[80];

static int of(const Gpu *g) { return (int)(g - gpu); }

int nvmlInit_v2(void)
{
    const char *path = getenv("FAKE_NVML");
    char line[200];
    FILE *from = path ? fopen(path, "r") : NULL;
    if (!from)
        return 9;                    /* no driver */
    for (int a = 0; a < GPUS; a++)
        for (int b = 0; b < GPUS; b++)
            level[a][b] = 50;
    while (fgets(line, sizeof line, from)) {
        Gpu *g = &gpu[n];
        int a, b, far, links;
        if (sscanf(line, "driver %79s %d", driver, &cuda) == 2 || sscanf(line, "switch %d", &by_switch) == 1)
            continue;
        if (sscanf(line, "gpu %d %d %lf %lf %d %95[^\n]", &g->major, &g->minor, &g->total, &g->used, &g->processes,
                   g->name) == 6)
            n++;
        else if (sscanf(line, "pair %d %d %d %d", &a, &b, &far, &links) == 4) {
            level[a][b] = level[b][a] = far;
            lanes[a][b] = lanes[b][a] = links;
        } else
            return 999;
    }
    fclose(from);
    return 0;
}

static int text(char *to, unsigned bytes, const char *from)
{
    snprintf(to, bytes, "%s", from);
    return 0;
}

static void fill(const Gpu *g, Pci *to)
{
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", 16 * (of(g) + 1) & 255);
}

int nvmlSystemGetDriverVersion(char *to, unsigned bytes) { return text(to, bytes, driver); }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { return *to = cuda, 0; }
int nvmlDeviceGetCount_v2(unsigned *to) { return *to = (unsigned)n, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Gpu **to) { return i < (unsigned)n ? *to = &gpu[i], 0 : 2; }
int nvmlDeviceGetName(Gpu *g, char *to, unsigned bytes) { return text(to, bytes, g->name); }
int nvmlDeviceGetPciInfo_v3(Gpu *g, Pci *to) { return fill(g, to), 0; }
int nvmlDeviceGetCudaComputeCapability(Gpu *g, int *a, int *b) { return *a = g->major, *b = g->minor, 0; }
int nvmlDeviceGetUtilizationRates(Gpu *g, Percent *to) { return *to = (Percent){g->processes ? 90 : 0, 0}, 0; }

int nvmlDeviceGetUUID(Gpu *g, char *to, unsigned bytes)
{
    return snprintf(to, bytes, "GPU-%08x-0000", 0x8a2c0000 + of(g)), 0;
}

int nvmlDeviceGetMemoryInfo(Gpu *g, Memory *to)
{
    const double gib = 1 << 30;
    *to = (Memory){(unsigned long long)(g->total * gib), (unsigned long long)((g->total - g->used) * gib),
                   (unsigned long long)(g->used * gib)};
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *g, unsigned *count, Process *to)
{
    if (*count < (unsigned)g->processes)
        return *count = (unsigned)g->processes, 7;
    for (int i = 0; i < g->processes; i++)
        to[i] = (Process){(unsigned)(1000 + i), 1ull << 30, 0, 0};
    return *count = (unsigned)g->processes, 0;
}

int nvmlDeviceGetTopologyCommonAncestor(Gpu *a, Gpu *b, int *to) { return *to = level[of(a)][of(b)], 0; }

int nvmlDeviceGetP2PStatus(Gpu *a, Gpu *b, int what, int *to)
{
    return *to = what == 2 && (by_switch || lanes[of(a)][of(b)]) ? 0 : 5, 0;
}

/* Links of a GPU are numbered by the GPUs they lead to. */
static int far_end(const Gpu *g, unsigned link)
{
    for (int b = 0; b < n; b++) {
        if (link < (unsigned)lanes[of(g)][b])
            return b;
        link -= (unsigned)lanes[of(g)][b];
    }
    return link < (unsigned)by_switch ? GPUS : -1;
}

int nvmlDeviceGetNvLinkState(Gpu *g, unsigned link, int *to) { return *to = far_end(g, link) >= 0, 0; }

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu *g, unsigned link, Pci *to)
{
    int b = far_end(g, link);
    if (b < 0)
        return 2;
    if (b < GPUS)
        return fill(&gpu[b], to), 0;
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "00000000:F0:00.0");
    return 0;
}
