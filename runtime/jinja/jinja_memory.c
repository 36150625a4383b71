/* jinja_memory.c -- memory, errors and limits of templates and renderings. */
#define _GNU_SOURCE
#include "runtime/jinja/jinja_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/utf8.h"

/* ---- memory ---------------------------------------------------------------------------------- */

struct ArenaBlock {
    ArenaBlock *before;
    size_t n, cap;
    _Alignas(16) char at[];
};

void *arena_take(Arena *a, size_t n)
{
    n = (n + 15) & ~(size_t)15;
    if (!a->block || a->block->cap - a->block->n < n) {
        const size_t cap = n > 1 << 15 ? n : 1 << 15;
        ArenaBlock *b = calloc(1, sizeof *b + cap);
        if (!b)
            return NULL;
        *b = (ArenaBlock){.before = a->block, .cap = cap};
        a->block = b;
        a->used += cap;
    }
    void *p = a->block->at + a->block->n;
    a->block->n += n;
    return p;
}

void arena_free(Arena *a)
{
    for (ArenaBlock *b = a->block, *before; b; b = before) {
        before = b->before;
        free(b);
    }
    *a = (Arena){0};
}

/* "line N: why", malloc'ed. */
static char *fault(int line, const char *why, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, why, args) < 0)
        abort();
    char *all = format("line %d: %s", line, text);
    free(text);
    return all;
}

void template_fail(JinjaTemplate *t, int line, const char *why, ...)
{
    va_list args;
    va_start(args, why);
    t->error = fault(line, why, args);
    va_end(args);
    longjmp(t->fail, 1);
}

/* ---- a rendering ----------------------------------------------------------------------------- */

void run_fail(Run *r, const char *why, ...)
{
    va_list args;
    va_start(args, why);
    r->error = fault(r->line, why, args);
    va_end(args);
    longjmp(r->fail, 1);
}

void run_steps(Run *r, size_t bytes)
{
    r->steps += 1 + bytes / 64;
    if (r->steps > r->limit)
        run_fail(r, "the rendering takes more than %zu steps", r->limit);
}

void *run_take(Run *r, size_t n)
{
    run_steps(r, n / 4);
    void *p = n <= JINJA_MEMORY && r->arena.used + n <= JINJA_MEMORY ? arena_take(&r->arena, n + 1)
                                                                     : NULL;
    if (!p)
        run_fail(r, "the rendering takes more than %d MiB", JINJA_MEMORY >> 20);
    return p;
}

void run_put(Run *r, const char *s, size_t n)
{
    run_steps(r, n);
    if (r->nout + n > JINJA_OUTPUT)
        run_fail(r, "the text has more than %d MiB", JINJA_OUTPUT >> 20);
    if (r->capout - r->nout <= n) {
        r->capout = 2 * r->capout + n + 1024;
        r->out = realloc(r->out, r->capout);
        if (!r->out)
            abort();
    }
    if (n)
        memcpy(r->out + r->nout, s, n);
    r->nout += n;
    r->out[r->nout] = 0;
}

bool is_space(uint32_t c)
{
    return utf8_is_space(c) || (c >= 0x1c && c <= 0x1f);
}
