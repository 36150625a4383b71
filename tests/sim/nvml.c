/* nvml.c -- stands for libnvidia-ml.so.1. FAKE_NVML in the environment: good, two GPUs of one name; failing, every
 * question fails; absurd, numbers that cannot be; dead, no driver. Asked about a bus that is not its second GPU's, it
 * names none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 2, ERROR = 999 };
static char gpu[GPUS];

static int is(const char *word)
{
    const char *mode = getenv("FAKE_NVML");
    return mode && !strcmp(mode, word);
}

int nvmlInit_v2(void)
{
    return is("dead") ? 9 : 0;
}

int nvmlSystemGetDriverVersion(char *to, unsigned bytes)
{
    snprintf(to, bytes, "550.54.15");
    return is("failing") ? ERROR : 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = is("absurd") ? 4000000000u : GPUS;
    return is("failing") ? ERROR : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **to)
{
    *to = i < GPUS ? &gpu[i] : NULL;
    return i < GPUS && !is("failing") ? 0 : ERROR;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **to)
{
    (void)bus;
    *to = &gpu[GPUS - 1];
    return is("unknown") ? 6 : 0;
}

int nvmlDeviceGetName(void *of, char *to, unsigned bytes)
{
    (void)of;
    snprintf(to, bytes, "NVIDIA H100");
    if (is("absurd"))
        memset(to, 'x', bytes);
    return is("failing") ? ERROR : 0;
}

int nvmlDeviceGetUUID(void *of, char *to, unsigned bytes)
{
    snprintf(to, bytes, "GPU-%d", of == &gpu[1]);
    return is("failing") ? ERROR : 0;
}

int nvmlDeviceGetUtilizationRates(void *of, unsigned to[2])
{
    to[0] = is("absurd") ? 4000000000u : of == &gpu[1] ? 87 : 3;
    to[1] = 1;
    return is("failing") ? ERROR : 0;
}

/* total, free, used */
int nvmlDeviceGetMemoryInfo(void *of, unsigned long long to[3])
{
    const unsigned long long gib = 1ull << 30;
    to[0] = 80 * gib;
    to[2] = is("absurd") ? 81 * gib : of == &gpu[1] ? 61 * gib : gib;
    to[1] = to[0] - to[2];
    return is("failing") ? ERROR : 0;
}
