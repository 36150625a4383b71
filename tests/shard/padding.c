/* padding.c -- preloaded: when a program ends, looks at the padding of parameters that are divided over ranks.
 *
 * In:    MODEL, the address of `model` in the program's file (nm); the ranks of a launcher.
 * Out:   on standard error "padding: rank R: N elements, M not 0". */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../runtime/model/model.h"

static int64_t elements, wrong;

static int64_t number(const char *a, const char *b)
{
    const char *text = getenv(a) ? getenv(a) : getenv(b);
    return text ? atoll(text) : -1;
}

/* n elements of an array from `first` on */
static void look(Array array, int64_t first, int64_t n)
{
    const int64_t size = element_bytes(array.type);
    const unsigned char *at = (const unsigned char *)array.at + first * size;
    for (int64_t i = 0; array.at && i < n; i++) {
        int zero = 1;
        for (int64_t k = 0; k < size; k++)
            zero = zero && at[i * size + k] == 0;
        elements++;
        wrong += !zero;
    }
}

/* The end of the parameter that the tensor is in, within its slot: where its last tensor ends. */
static int64_t end_of(const Model *m, const Tensor *t)
{
    int64_t end = 0, slot = t->first / t->stride;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *u = &m->tensors[i];
        if (u->weight.at == t->weight.at && u->first / t->stride == slot &&
            u->first % t->stride + model_elements(u) > end)
            end = u->first % t->stride + model_elements(u);
    }
    return end;
}

/* of a slot of the parameter, whose tensors end at `end` */
static void look_at_array(const Tensor *t, Array array, int64_t end, int64_t rank)
{
    const int64_t slot = t->first / t->stride, part = array.part;
    int64_t skip = end - rank * part;
    skip = skip < 0 ? 0 : skip < part ? skip : part;
    if (part)
        look(array, slot * part + skip, part - skip);
    else
        look(array, slot * t->stride + end, t->stride - end);
}

static void look_at(const Model *m, int64_t rank)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const Array all[] = {t->weight, t->grad, t->start, t->master, t->exp_avg, t->exp_avg_sq};
        for (int k = 0; t->exp_avg.part && k < 6; k++)
            look_at_array(t, all[k], end_of(m, t), rank);
    }
}

static int base_of(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)size;
    *(uintptr_t *)to = info->dlpi_addr;
    return 1;                    /* the first is the program */
}

__attribute__((destructor)) static void at_end(void)
{
    const char *offset = getenv("MODEL");
    const int64_t rank = number("OMPI_COMM_WORLD_RANK", "RANK");
    uintptr_t base = 0;
    if (!offset || rank < 0)
        return;
    dl_iterate_phdr(base_of, &base);
    const Model *m = (const Model *)(base + strtoull(offset, NULL, 16));
    if (!m->tensors || m->ntensors < 1)
        return;
    look_at(m, rank);
    fprintf(stderr, "padding: rank %lld: %lld elements, %lld not 0\n", (long long)rank,
            (long long)elements, (long long)wrong);
}
