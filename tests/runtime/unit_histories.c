/* unit_histories.c -- histories of darkroom: written, read back, and every way a file can be wrong. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/darkroom.h"
#include "../../runtime/data/histories.h"
#include "../../runtime/files/folder.h"
#include "../../runtime/files/safetensors.h"
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 3, STEPS = 160, CELLS = STREAMS * STEPS };

static uint8_t action[CELLS];

static const uint8_t *some_actions(void *user, int task)
{
    (void)user;
    for (int i = 0; i < CELLS; i++)
        action[i] = (uint8_t)((i * 7 + i / 11 + task * 3) % DARKROOM_ACTIONS);
    return action;
}

static HistoriesPlan plan_of(int env)
{
    return (HistoriesPlan){.env = env, .streams = STREAMS, .steps = STEPS, .actions = some_actions};
}

static void read_back(const char *path, int env)
{
    const HistoriesPlan plan = plan_of(env);
    char *error = histories_write(path, &plan);
    Histories h = {0}, part = {0};
    error = error ? error : histories_open(&h, path, &(HistoriesWanted){.env = env});
    error = error ? error : histories_open(&part, path, &(HistoriesWanted){.env = env, .streams = 2, .steps = 100});
    check(!error, env ? "histories.read back, permuted" : "histories.read back", "%s", error ? error : "");
    if (error)
        return;
    bool same = h.tasks == darkroom_tasks(env) && h.streams == STREAMS && h.steps == STEPS;
    bool cut = part.streams == 2 && part.steps == 100 && part.file_steps == STEPS && part.file_streams == STREAMS;
    for (int task = 0; task < h.tasks; task++)
        for (int s = 0; s < STREAMS; s++) {
            int state = darkroom_start(env);
            some_actions(NULL, task);
            for (int t = 0; t < STEPS; t++) {
                const int code = histories_of(&h, task, s)[t];
                const int next = darkroom_step(env, task, state, action[t * STREAMS + s]);
                same &= darkroom_state_of(code) == state && darkroom_next_of(darkroom_start(env), code) == next &&
                        darkroom_action_of(code) == action[t * STREAMS + s] &&
                        darkroom_reward_of(code) == darkroom_reward(env, task, next);
                cut &= s > 1 || t > 99 || histories_of(&part, task, s)[t] == code;
                state = t % 20 == 19 ? darkroom_start(env) : next;
            }
        }
    check(same, "histories.codes", "others than the steps'");
    check(cut && strcmp(part.fingerprint, h.fingerprint), "histories.the first of them", "others");
    histories_close(&h);
    histories_close(&part);
}

/* A copy of `from` with other tensors. resets: as imported files have it; missing, odd: names of tensors, one that
 * is left out, one with another dtype or a last dimension that is 1 less. */
typedef struct {
    bool wide, resets;
    const char *missing, *odd, *extra;
    StDtype dtype;
    int less;
} Variant;

static void add_variant(StWriter *w, const StFile *st, const Variant *v)
{
    for (int i = 0; i < st->n; i++) {
        const StTensor *t = &st->t[i];
        int64_t shape[ST_RANK];
        memcpy(shape, t->shape, sizeof shape);
        const bool odd = v->odd && !strcmp(t->name, v->odd);
        shape[t->rank - 1] -= odd ? v->less : 0;
        if (!v->missing || strcmp(t->name, v->missing))
            st_add(w, t->name, odd && v->dtype ? v->dtype : v->wide ? ST_I32 : ST_U8, t->rank, shape);
    }
    if (v->extra)
        st_add(w, v->extra, ST_U8, 1, (int64_t[]){1});
}

static void write_variant(const char *from, const char *to, const Variant *v)
{
    static uint8_t bytes[2 * CELLS];
    static int32_t wide[2 * CELLS];
    StFile st;
    st_open(&st, from);
    StWriter *w = st_writer("x");
    add_variant(w, &st, v);
    char *error = st_begin(w, to);
    for (int i = 0; i < st_count(w) && !error; i++) {
        const StTensor *t = st_planned(w, i), *source = st_find(&st, t->name);
        if (source)
            st_read(&st, source, bytes, 0, source->end - source->begin);
        if (v->resets && strstr(t->name, "next_states"))
            for (int k = 0; k < 2 * CELLS; k++)
                bytes[k] = k / 2 / STREAMS % 20 == 19 ? 4 : bytes[k];
        for (int k = 0; k < 2 * CELLS; k++)
            wide[k] = bytes[k];
        error = st_write(w, t->name, v->wide ? (void *)wide : bytes, t->end - t->begin);
    }
    error = error ? error : st_end(w, &(uint32_t){0});
    check(!error, "histories.variant written", "%s", error ? error : "");
    st_free(w);
    st_close(&st);
}

static void refused(const char *path, const HistoriesWanted *wanted, const char *name, const char *want)
{
    Histories h;
    char *error = histories_open(&h, path, wanted);
    char *line = format("histories.refused: %s", name);
    check(error && strstr(error, want), line, "want \"%s\", got \"%s\"", want, error ? error : "nothing");
    if (!error)
        histories_close(&h);
    free(error);
    free(line);
}

static void variants(const char *good, const char *path)
{
    const HistoriesWanted plain = {0}, resets = {.resets = true};
    Histories a = {0}, b = {0};
    write_variant(good, path, &(Variant){.wide = true});
    check(!histories_open(&a, good, &plain) && !histories_open(&b, path, &plain) &&
              !strcmp(a.fingerprint, b.fingerprint), "histories.I32 as U8", "other codes");
    histories_close(&b);
    write_variant(good, path, &(Variant){.resets = true});
    refused(path, &plain, "resets as true states", "goal 0, stream 0, step 19: next state (4,4): must be (4,7), by "
            "action 4 from (4,7): the file may have the state after a reset; ad.next_state = reset reads it");
    char *error = histories_open(&b, path, &resets);
    check(!error, "histories.resets", "%s", error ? error : "");
    int unreached = 0;
    bool same = !error;
    for (int t = 0; same && t < STEPS; t++) {
        const int x = histories_of(&a, 5, 1)[t], y = histories_of(&b, 5, 1)[t];
        same &= t % 20 == 19 ? darkroom_next_of(40, y) == 40 && darkroom_state_of(y) == darkroom_state_of(x) : x == y;
        unreached += y % 6 == DARKROOM_NO_MOVE;
    }
    check(same && unreached, "histories.codes of resets", "%d after which no move leads to the start", unreached);
    histories_close(&a);
    histories_close(&b);
    refused(good, &resets, "true states as resets", "must be (4,4), the start, after action");
    write_variant(good, path, &(Variant){.missing = "7/rewards"});
    refused(path, &plain, "a missing tensor", "tensor 7/rewards of 81 tasks is missing");
    write_variant(good, path, &(Variant){.missing = "0/actions"});
    refused(path, &plain, "no history", "not histories of darkroom: there is no tensor 0/actions");
    write_variant(good, path, &(Variant){.odd = "3/dones", .dtype = ST_I8});
    refused(path, &plain, "a dtype", "3/dones: must be U8 or I32, got I8");
    write_variant(good, path, &(Variant){.odd = "80/states", .less = 1});
    refused(path, &plain, "a shape", "80/states: must be [160, 3, 2] like 0/actions, got [160, 3, 1]");
    write_variant(good, path, &(Variant){.odd = "12/actions", .less = 1});
    refused(path, &plain, "another length", "12/actions: must be [160, 3] like 0/actions, got [160, 2]");
    write_variant(good, path, &(Variant){.extra = "81/actions"});
    refused(path, &plain, "a goal too many", "tensor 81/actions does not belong");
    write_variant(good, path, &(Variant){.extra = "07/actions"});
    refused(path, &plain, "another spelling", "tensor 07/actions does not belong");
    refused(good, &(HistoriesWanted){.env = DARKROOM_PERMUTED}, "another environment",
            "needs histories of 120 tasks, ad.env=permuted as in this program's recipe, has 81 tasks, ad.env=darkroom: "
            "gen RECIPE ad.env=darkroom makes");
    refused(good, &(HistoriesWanted){.steps = 161}, "too few steps", "needs 161 steps of each stream, has 160");
    refused(good, &(HistoriesWanted){.streams = 4}, "too few streams", "needs 4 streams of each task, has 3");
    refused("out/.test/absent/x", &plain, "no file", "out/.test/absent/x");
}

/* A byte of a good file changed. */
static void damages(const char *good, const char *path)
{
    static const struct { const char *tensor; int at, value; const char *name, *want; } damage[] = {
        {"9/states", 2 * 50, 9, "state off the grid", "goal 9, stream 2, step 16: state (9,"},
        {"9/states", 2 * 3 + 1, 8, "state that the step before did not lead to",
         "goal 9, stream 0, step 1: state (4,8): must be (4,5), the next state of"},
        {"9/states", 2 * 60, 5, "episode that begins elsewhere",
         "goal 9, stream 0, step 20: state (5,4): must be (4,4), the start of an episode"},
        {"9/next_states", 2 * 50 + 1, 255, "next state off the grid", "goal 9, stream 2, step 16: next state ("},
        {"9/next_states", 2 * 6, 7, "transition that does not follow",
         "goal 9, stream 0, step 2: next state (7,"},
        {"9/actions", 479, 5, "action", "goal 9, stream 2, step 159: action 5: must be 0..4"},
        {"44/rewards", 4, 1, "reward for nothing",
         "goal 44, stream 1, step 1: reward 1: must be 0: the step leads to ("},
        {"44/rewards", 4, 9, "reward", "goal 44, stream 1, step 1: reward 9: must be 0"},
        {"80/dones", 3 * 19, 0, "episode without end", "goal 80, stream 0, step 19: done 0: must be 1"},
        {"80/dones", 3 * 18 + 1, 1, "early end", "goal 80, stream 1, step 18: done 1: must be 0"},
        {"0/compress_markers", 0, 0, "first marker", "goal 0, stream 0, step 0: marker 0: must be 1"},
        {"0/compress_markers", 3 * 79 + 2, 1, "last marker", "goal 0, stream 2, step 79: marker 1: must be 2"},
        {"0/compress_markers", 3 * 81, 3, "a marker", "goal 0, stream 0, step 81: marker 3: must be 0"}};
    StFile st;
    char *error = st_open(&st, good);
    check(!error, "histories.opens", "%s", error ? error : "");
    for (size_t i = 0; !error && i < sizeof damage / sizeof *damage; i++) {
        FILE *in = fopen(good, "rb"), *out = fopen(path, "wb");
        const long at = (long)st_find(&st, damage[i].tensor)->begin + damage[i].at;
        for (long k = 0; in && out; k++) {
            const int byte = fgetc(in);
            if (byte == EOF)
                break;
            fputc(k == at ? damage[i].value : byte, out);
        }
        fclose(in);
        fclose(out);
        refused(path, &(HistoriesWanted){0}, damage[i].name, damage[i].want);
    }
    st_close(&st);
}

void test_histories(const char *scratch)
{
    char *good = folder_join(scratch, "histories"), *other = folder_join(scratch, "histories.other");
    read_back(other, DARKROOM_PERMUTED);
    read_back(good, DARKROOM_DARKROOM);
    variants(good, other);
    damages(good, other);
    free(good);
    free(other);
}
