/* nvml_cuda.c -- queries libnvidia-ml.so.1, with our own declarations of the functions used.
 *
 * Method: a table of functions; one that this version of the library lacks has no answer. */
#include "runtime/nvml_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct {
    char bus_legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
} Pci;

/* name, arguments; each returns 0 on success */
#define FUNCTIONS(F)                                                        \
    F(nvmlInit_v2, (void))                                                  \
    F(nvmlSystemGetDriverVersion, (char *to, unsigned bytes))               \
    F(nvmlDeviceGetCount_v2, (unsigned *n))                                 \
    F(nvmlDeviceGetHandleByIndex_v2, (unsigned i, NvmlDevice *to))          \
    F(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, NvmlDevice *to))  \
    F(nvmlDeviceGetName, (NvmlDevice of, char *to, unsigned bytes))         \
    F(nvmlDeviceGetUUID, (NvmlDevice of, char *to, unsigned bytes))         \
    F(nvmlDeviceGetPciInfo_v3, (NvmlDevice of, Pci *to))                    \
    F(nvmlDeviceGetCudaComputeCapability, (NvmlDevice of, int *major, int *minor)) \
    F(nvmlDeviceGetUtilizationRates, (NvmlDevice of, Utilisation *to))      \
    F(nvmlDeviceGetMemoryInfo, (NvmlDevice of, Memory *to))

static struct {
#define F(name, arguments) int (*name) arguments;
    FUNCTIONS(F)
#undef F
} call;

static void *library;            /* NULL: not opened */

/* True if the library has the function and it succeeds. */
#define ASK(name, ...) (call.name && call.name(__VA_ARGS__) == 0)

const char *nvml_open(void)
{
    static bool tried;
    static char why[300];
    if (tried)
        return *why ? why : NULL;
    tried = true;
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        snprintf(why, sizeof why, "%.290s", dlerror());
        return why;
    }
#define F(name, arguments) call.name = (int (*) arguments)dlsym(library, #name);
    FUNCTIONS(F)
#undef F
    int code = call.nvmlInit_v2 ? call.nvmlInit_v2() : -1;
    if (code)
        snprintf(why, sizeof why, "libnvidia-ml.so.1: nvmlInit_v2 %s (%d): is the driver loaded?",
                 code == -1 ? "is missing" : "failed", code);
    return *why ? why : NULL;
}

void *nvml_function(const char *name)
{
    return library ? dlsym(library, name) : NULL;
}

/* Terminates a text of the library, which may not have done so. */
static void end_text(char *text, size_t bytes, bool said)
{
    text[said ? bytes - 1 : 0] = '\0';
}

const char *nvml_driver(void)
{
    static char version[80];
    end_text(version, sizeof version, ASK(nvmlSystemGetDriverVersion, version, sizeof version));
    return version;
}

int nvml_count(void)
{
    unsigned n = 0;
    return ASK(nvmlDeviceGetCount_v2, &n) && n < 4096 ? (int)n : 0;
}

NvmlDevice nvml_device(int i)
{
    NvmlDevice device = NULL;
    return ASK(nvmlDeviceGetHandleByIndex_v2, (unsigned)i, &device) ? device : NULL;
}

NvmlDevice nvml_at(const char *bus)
{
    NvmlDevice device = NULL;
    return ASK(nvmlDeviceGetHandleByPciBusId_v2, bus, &device) ? device : NULL;
}

void nvml_about(NvmlDevice device, NvmlAbout *to)
{
    Pci pci = {.domain = 0};
    int major, minor;
    memset(to, 0, sizeof *to);
    if (!device)
        return;
    end_text(to->name, sizeof to->name, ASK(nvmlDeviceGetName, device, to->name, sizeof to->name));
    end_text(to->uuid, sizeof to->uuid, ASK(nvmlDeviceGetUUID, device, to->uuid, sizeof to->uuid));
    if (ASK(nvmlDeviceGetPciInfo_v3, device, &pci))
        snprintf(to->bus, sizeof to->bus, "%.31s", pci.bus_id);
    if (ASK(nvmlDeviceGetCudaComputeCapability, device, &major, &minor) && major > 0 && minor >= 0)
        to->major = major, to->minor = minor;
}

void nvml_use(NvmlDevice device, NvmlUse *to)
{
    Utilisation percent;
    Memory memory;
    *to = (NvmlUse){.busy = -1};
    if (!device)
        return;
    if (ASK(nvmlDeviceGetUtilizationRates, device, &percent) && percent.gpu <= 100)
        to->busy = percent.gpu;
    if (ASK(nvmlDeviceGetMemoryInfo, device, &memory) && memory.total > 0 &&
        memory.used <= memory.total && memory.total <= (unsigned long long)1 << 50) {
        to->used = (int64_t)memory.used;
        to->total = (int64_t)memory.total;
    }
}
