/* replicas.c -- comparison of the weights and states that ranks must share.
 *
 * In:     the model's arrays, between two steps.
 * Method: a checksum for each rank's shares of gathered weights, and one for everything else that
 *         training changes. If they differ, the ranks exchange them: a share's owner has the right
 *         one if its master weights say so, else most ranks have. */
#include "runtime/run/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/model/model_parts.h"
#include "runtime/ranks/comm.h"

/* ---- ranks by name --------------------------------------------------------------------------- */

enum { HOST = sizeof world.host };

static void *table(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for the checksums of %d ranks", world.size);
    return p;
}

/* Gathers every rank's bytes into rows, (size, bytes), on every rank. */
static void exchange(const void *own, void *rows, size_t bytes)
{
    memcpy((char *)rows + (size_t)world.rank * bytes, own, bytes);
    for (int r = 0; r < world.size; r++)
        comm_broadcast((char *)rows + (size_t)r * bytes, bytes, r);
}

/* Returns "rank 2 (host)" or "ranks 0 (host), 3 (host)": those that are wrong, as many as a line
 * holds; malloc'ed. Collective. */
static char *names(const bool *wrong, int n)
{
    enum { ROOM = 300 };
    char text[ROOM + HOST] = "", *host = table(world.size, HOST);
    exchange(world.host, host, HOST);
    int length = snprintf(text, ROOM, n > 1 ? "ranks" : "rank");
    for (int r = 0, before = 0; r < world.size && length < ROOM - HOST - 20; r++)
        if (wrong[r])
            length += snprintf(text + length, sizeof text - (size_t)length, "%s %d (%s)",
                               before++ ? "," : "", r, host + r * HOST);
    free(host);
    return format("%s", text);
}

static char *two_ranks(const char *what)
{
    char host[2][HOST];
    exchange(world.host, host, HOST);
    return format("ranks 0 (%s) and 1 (%s) have different %s: one of them is wrong", host[0],
                  host[1], what);
}

/* ---- checksums ------------------------------------------------------------------------------- */

/* Checksums (holder, column) of all ranks: column r is that of rank r's shares, the last that of
 * everything else. */
typedef struct {
    uint32_t *crc;
    int columns;
    bool *certain;           /* by owner: its shares are its master weights rounded */
} Votes;

static uint32_t vote(const Votes *v, int holder, int column)
{
    return v->crc[holder * v->columns + column];
}

static int holders(const Votes *v, int column, uint32_t crc)
{
    int n = 0;
    for (int r = 0; r < world.size; r++)
        n += vote(v, r, column) == crc;
    return n;
}

/* Returns a rank whose checksum in this column is right; -1: unknown. */
static int right_in(const Votes *v, int column)
{
    int most = 0;
    if (column < world.size && v->certain[column])
        return column;
    for (int r = 1; r < world.size; r++)
        if (holders(v, column, vote(v, r, column)) > holders(v, column, vote(v, most, column)))
            most = r;
    return 2 * holders(v, column, vote(v, most, column)) > world.size ? most : -1;
}

static char *difference(const Votes *v, const char *what)
{
    int n = 0;
    bool *wrong = table(world.size, sizeof *wrong);
    for (int c = 0; c < v->columns; c++)
        for (int r = 0, right = right_in(v, c); r < world.size && right >= 0; r++)
            wrong[r] = wrong[r] || vote(v, r, c) != vote(v, right, c);
    for (int r = 0; r < world.size; r++)
        n += wrong[r];
    char *who = n ? names(wrong, n) : NULL,
         *text = who ? format("%s %s different %s from the other ranks", who,
                              n > 1 ? "have" : "has", what)
                 : world.size == 2
                     ? two_ranks(what)
                     : format("the ranks have different %s, and no majority agrees", what);
    free(who), free(wrong);
    return text;
}

char *replicas_difference(const Model *m, uint32_t other, const char *what)
{
    Votes v = {.columns = world.size + 1};
    char *text = NULL;
    if (world.size == 1)
        return NULL;
    uint32_t *own = table(v.columns, sizeof *own);
    parts_weights_crc(m, own);
    own[world.size] = other ^ model_state_crc(m);
    const int64_t all = crc32c(0, own, (size_t)v.columns * sizeof *own);
    if (comm_max_int(all) != -comm_max_int(-all)) {
        v.crc = table(world.size * (int64_t)v.columns, sizeof *v.crc);
        v.certain = table(world.size, sizeof *v.certain);
        exchange(own, v.crc, (size_t)v.columns * sizeof *own);
        const bool certain = parts_unrounded(m) == 0;
        exchange(&certain, v.certain, sizeof certain);
        text = difference(&v, what);
        free(v.crc), free(v.certain);
    }
    free(own);
    return text;
}

char *replicas_rounding(const Model *m)
{
    const int64_t off = parts_unrounded(m);
    if (comm_max_int(off) <= 0)
        return NULL;
    int n = 0;
    bool *wrong = table(world.size, sizeof *wrong);
    const bool own = off > 0;
    exchange(&own, wrong, sizeof own);
    for (int r = 0; r < world.size; r++)
        n += wrong[r];
    char *who = names(wrong, n),
         *text = format("%s %s weights that are not %s master weights rounded", who,
                        n > 1 ? "have" : "has", n > 1 ? "their" : "its");
    free(who), free(wrong);
    return text;
}
