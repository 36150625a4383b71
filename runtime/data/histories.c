/* histories.c -- reads, checks and writes learning histories of darkroom.
 *
 * Method: the six tensors of one task at a time. */
#define _GNU_SOURCE
#include "runtime/data/histories.h"

#include "runtime/base.h"
#include "runtime/darkroom.h"
#include "runtime/files/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The tensors of a task, in the order of their names. */
enum { ACTIONS, MARKERS, DONES, NEXT, REWARDS, STATES, TENSORS };
static const struct { const char *name; int each; } tensor[TENSORS] = {
    {"actions", 1}, {"compress_markers", 1}, {"dones", 1},
    {"next_states", 2}, {"rewards", 1}, {"states", 2}};

enum { FIRST_OF_ROLLOUT = 1, LAST_OF_ROLLOUT = 2, NAME = 64 };

static void name_of(char name[NAME], int task, int k)
{
    snprintf(name, NAME, "%d/%s", task, tensor[k].name);
}

static int marker_of(int64_t t)
{
    return t % HISTORIES_ROLLOUT == 0                       ? FIRST_OF_ROLLOUT
           : t % HISTORIES_ROLLOUT == HISTORIES_ROLLOUT - 1 ? LAST_OF_ROLLOUT
                                                            : 0;
}

static bool ends_episode(int64_t t)
{
    return t % DARKROOM_EPISODE == DARKROOM_EPISODE - 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    StFile st;
    HistoriesWanted wanted;
    Histories *h;
    int32_t *column[TENSORS];    /* of the current task: (file_steps, file_streams, each) */
    void *bytes;                 /* of one tensor in the file */
} Reader;

static const char *shape_text(char *text, size_t n, const int64_t *shape, int rank)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < rank && at < n; i++)
        at += (size_t)snprintf(text + at, n - at, "%s%" PRId64, i ? ", " : "", shape[i]);
    return text;
}

/* Reads the number of steps and streams from the shape of the first tensor. */
static char *read_sizes(Reader *r)
{
    Histories *h = r->h;
    const char *path = r->st.path;
    const StTensor *t = st_find(&r->st, "0/actions");
    if (!t)
        return format("%s: not histories of darkroom: there is no tensor 0/actions", path);
    if (t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 1 || t->shape[1] > HISTORIES_MOST ||
        t->shape[0] > INT64_C(1) << 30) {
        char found[128];
        return format("%s: 0/actions: must be [steps, streams], got [%s]", path,
                      shape_text(found, sizeof found, t->shape, t->rank));
    }
    h->file_steps = t->shape[0];
    h->file_streams = (int)t->shape[1];
    h->steps = r->wanted.steps ? r->wanted.steps : h->file_steps;
    h->streams = r->wanted.streams ? r->wanted.streams : h->file_streams;
    if (h->steps > h->file_steps)
        return format("%s: needs %" PRId64 " steps of each stream, has %" PRId64, path, h->steps,
                      h->file_steps);
    if (h->streams > h->file_streams)
        return format("%s: needs %d streams of each task, has %d", path, h->streams,
                      h->file_streams);
    return NULL;
}

/* True if the file has exactly the tasks of an environment, judged by their actions. */
static bool is_of(const Reader *r, int env)
{
    char last[NAME], beyond[NAME];
    name_of(last, darkroom_tasks(env) - 1, ACTIONS);
    name_of(beyond, darkroom_tasks(env), ACTIONS);
    return st_find(&r->st, last) && !st_find(&r->st, beyond);
}

static char *check_environment(const Reader *r)
{
    static const char *const name[] = {[DARKROOM_DARKROOM] = "darkroom",
                                       [DARKROOM_PERMUTED] = "permuted"};
    const int wanted = r->wanted.env, other = !wanted;
    if (!is_of(r, other))
        return NULL;
    return format("%s: needs histories of %d tasks, ad.env=%s as in this program's recipe, has %d "
                  "tasks, ad.env=%s: gen RECIPE ad.env=%s makes a program that reads it",
                  r->st.path, darkroom_tasks(wanted), name[wanted], darkroom_tasks(other),
                  name[other], name[other]);
}

/* Checks that the file has every required tensor and no other. */
static char *check_tensors(const Reader *r)
{
    const char *path = r->st.path;
    const Histories *h = r->h;
    for (int task = 0; task < h->tasks; task++)
        for (int k = 0; k < TENSORS; k++) {
            char name[NAME], found[128], want[128];
            name_of(name, task, k);
            const StTensor *t = st_find(&r->st, name);
            if (!t)
                return format("%s: tensor %s of %d tasks is missing", path, name, h->tasks);
            const int64_t shape[] = {h->file_steps, h->file_streams, 2};
            const int rank = tensor[k].each == 1 ? 2 : 3;
            if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape))
                return format("%s: %s: must be [%s] like 0/actions, got [%s]", path, name,
                              shape_text(want, sizeof want, shape, rank),
                              shape_text(found, sizeof found, t->shape, t->rank));
            if (t->dtype != ST_U8 && t->dtype != ST_I32)
                return format("%s: %s: must be U8 or I32, got %s", path, name,
                              st_dtype_name[t->dtype]);
        }
    for (int i = 0; i < r->st.n; i++) {
        char *end;
        const long task = strtol(r->st.t[i].name, &end, 10);
        int k = 0;
        while (k < TENSORS && (*end != '/' || strcmp(end + 1, tensor[k].name)))
            k++;
        char name[NAME] = "";
        if (k < TENSORS && task >= 0 && task < h->tasks)
            name_of(name, (int)task, k);
        if (strcmp(name, r->st.t[i].name))
            return format("%s: tensor %s does not belong to the histories of %d tasks", path,
                          r->st.t[i].name, h->tasks);
    }
    return NULL;
}

static char *read_task(Reader *r, int task)
{
    for (int k = 0; k < TENSORS; k++) {
        char name[NAME];
        name_of(name, task, k);
        const StTensor *t = st_find(&r->st, name);
        const int64_t n = r->h->file_steps * r->h->file_streams * tensor[k].each;
        const bool wide = t->dtype == ST_I32;
        char *error = st_read(&r->st, t, wide ? (void *)r->column[k] : r->bytes, 0,
                              (uint64_t)n * (wide ? 4 : 1));
        if (error)
            return error;
        for (int64_t i = 0; !wide && i < n; i++)
            r->column[k][i] = ((const uint8_t *)r->bytes)[i];
    }
    return NULL;
}

/* Prefixes a message with the location of a step; frees `what`. */
static char *wrong(const Reader *r, int task, int stream, int64_t t, char *what)
{
    char *text = format("%s: goal %d, stream %d, step %" PRId64 ": %s", r->st.path, task, stream, t,
                        what);
    free(what);
    return text;
}

static bool on_grid(const int32_t *cell)
{
    return cell[0] >= 0 && cell[0] < DARKROOM_SIDE && cell[1] >= 0 && cell[1] < DARKROOM_SIDE;
}

static int state_at(const int32_t *cell)
{
    return DARKROOM_SIDE * cell[0] + cell[1];
}

/* The transition of step t, element `at` of the columns; its code, and the state that the next one
 * has to begin with. NULL, or what is wrong. */
static char *check_step(const Reader *r, int task, int64_t t, int64_t at, int *state,
                        uint16_t *code)
{
    const int env = r->wanted.env, start = darkroom_start(env);
    const int32_t *from = r->column[STATES] + 2 * at, *to = r->column[NEXT] + 2 * at;
    const int32_t action = r->column[ACTIONS][at], reward = r->column[REWARDS][at];
    const int32_t done = r->column[DONES][at], marker = r->column[MARKERS][at];
    if (!on_grid(from))
        return format("state (%d,%d): coordinates must be 0..%d", from[0], from[1],
                      DARKROOM_SIDE - 1);
    if (!on_grid(to))
        return format("next state (%d,%d): coordinates must be 0..%d", to[0], to[1],
                      DARKROOM_SIDE - 1);
    if (action < 0 || action >= DARKROOM_ACTIONS)
        return format("action %d: must be 0..%d", action, DARKROOM_ACTIONS - 1);
    if (state_at(from) != *state)
        return format("state (%d,%d): must be (%d,%d), %s", from[0], from[1], darkroom_row(*state),
                      darkroom_column(*state), t % DARKROOM_EPISODE
                          ? "the next state of the step before" : "the start of an episode");
    const bool last = ends_episode(t);
    const int led = darkroom_step(env, task, *state, action), next = state_at(to);
    const int want = last && r->wanted.resets ? start : led;
    if (next != want) {
        const char *hint = !last || (next != start && next != led) ? ""
            : r->wanted.resets
                ? ": the file has the state reached; ad.next_state = terminal reads it"
                : ": the file may have the state after a reset; ad.next_state = reset reads it";
        return format("next state (%d,%d): must be (%d,%d), %s action %d from (%d,%d)%s", to[0],
                      to[1], darkroom_row(want), darkroom_column(want),
                      last && r->wanted.resets ? "the start, after" : "by", action, from[0],
                      from[1], hint);
    }
    const int earned = darkroom_reward(env, task, led);
    if (reward != earned)
        return format("reward %d: must be %d: the step leads to (%d,%d)", reward, earned,
                      darkroom_row(led), darkroom_column(led));
    if (done != last)
        return format("done %d: must be %d: an episode is %d steps", done, last, DARKROOM_EPISODE);
    if (marker != marker_of(t))
        return format("marker %d: must be %d: a rollout is %d steps", marker, marker_of(t),
                      HISTORIES_ROLLOUT);
    *code = (uint16_t)darkroom_code(start, *state, action, reward, next);
    *state = last ? start : led;
    return NULL;
}

static char *check_task(Reader *r, int task)
{
    Histories *h = r->h;
    for (int s = 0; s < h->file_streams; s++) {
        int state = darkroom_start(r->wanted.env);
        for (int64_t t = 0; t < h->file_steps; t++) {
            uint16_t code = 0;
            char *what = check_step(r, task, t, t * h->file_streams + s, &state, &code);
            if (what)
                return wrong(r, task, s, t, what);
            if (s < h->streams && t < h->steps)
                h->code[(task * (int64_t)h->streams + s) * h->steps + t] = code;
        }
    }
    return NULL;
}

static void fingerprint(const Reader *r)
{
    Histories *h = r->h;
    const int64_t head[] = {r->wanted.env, r->wanted.resets, h->tasks, h->streams, h->steps};
    Sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, head, sizeof head);
    sha256_add(&hash, h->code, (size_t)(h->tasks * h->streams * h->steps) * sizeof *h->code);
    sha256_text(&hash, h->fingerprint);
}

static char *read_all(Reader *r)
{
    Histories *h = r->h;
    char *error = read_sizes(r);
    if (!error)
        error = check_environment(r);
    if (!error)
        error = check_tensors(r);
    if (error)
        return error;
    const int64_t n = h->file_steps * h->file_streams;
    h->code = malloc((size_t)(h->tasks * h->streams * h->steps) * sizeof *h->code);
    r->bytes = malloc((size_t)n * 2);
    bool room = h->code && r->bytes;
    for (int k = 0; k < TENSORS; k++)
        room = (r->column[k] = malloc((size_t)(n * tensor[k].each) * sizeof **r->column)) && room;
    if (!room)
        return format("%s: out of memory for %d goals of %" PRId64 " steps", r->st.path, h->tasks,
                      n);
    for (int task = 0; task < h->tasks && !error; task++) {
        error = read_task(r, task);
        if (!error)
            error = check_task(r, task);
    }
    if (!error)
        fingerprint(r);
    return error;
}

char *histories_open(Histories *h, const char *path, const HistoriesWanted *wanted)
{
    Reader r = {.wanted = *wanted, .h = h};
    *h = (Histories){.tasks = darkroom_tasks(wanted->env)};
    char *error = st_open(&r.st, path);
    if (error)
        return error;
    error = read_all(&r);
    for (int k = 0; k < TENSORS; k++)
        free(r.column[k]);
    free(r.bytes);
    st_close(&r.st);
    if (error)
        histories_close(h);
    return error;
}

void histories_close(Histories *h)
{
    free(h->code);
    *h = (Histories){0};
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Fills the bytes of tensor k of a task. */
static void fill(const HistoriesPlan *p, int task, int k, const uint8_t *action, uint8_t *to)
{
    for (int s = 0; s < p->streams; s++) {
        int state = darkroom_start(p->env);
        for (int64_t t = 0; t < p->steps; t++) {
            const int64_t at = t * p->streams + s;
            const int next = darkroom_step(p->env, task, state, action[at]);
            const int cell = k == NEXT ? next : state;
            if (tensor[k].each == 2) {
                to[2 * at] = (uint8_t)darkroom_row(cell);
                to[2 * at + 1] = (uint8_t)darkroom_column(cell);
            } else
                to[at] = (uint8_t)(k == ACTIONS   ? action[at]
                                   : k == REWARDS ? darkroom_reward(p->env, task, next)
                                   : k == DONES   ? ends_episode(t)
                                                  : marker_of(t));
            state = ends_episode(t) ? darkroom_start(p->env) : next;
        }
    }
}

static char *plan_file(StWriter *w, const HistoriesPlan *p, const char *path)
{
    const int64_t shape[] = {p->steps, p->streams, 2};
    char *error = NULL;
    for (int task = 0; task < darkroom_tasks(p->env) && !error; task++)
        for (int k = 0; k < TENSORS && !error; k++) {
            char name[NAME];
            name_of(name, task, k);
            error = st_add(w, name, ST_U8, tensor[k].each == 2 ? 3 : 2, shape);
        }
    for (int i = 0; i < p->nmeta && !error; i++)
        error = st_add_meta(w, p->meta[2 * i], p->meta[2 * i + 1]);
    return error ? error : st_begin(w, path);
}

char *histories_write(const char *path, const HistoriesPlan *p)
{
    StWriter *w = st_writer("diecast-histories-1");
    const int64_t n = p->steps * p->streams;
    uint8_t *bytes = malloc((size_t)n * 2);
    char *error = bytes ? plan_file(w, p, path) : format("%s: out of memory", path);
    for (int i = 0; i < st_count(w) && !error; i++) {
        const char *name = st_planned(w, i)->name;
        const int task = atoi(name);
        int k = 0;
        while (strcmp(strchr(name, '/') + 1, tensor[k].name))
            k++;
        fill(p, task, k, p->actions(p->user, task), bytes);
        error = st_write(w, name, bytes, (uint64_t)(n * tensor[k].each));
    }
    error = error ? error : st_end(w, &(uint32_t){0});
    st_free(w);
    free(bytes);
    return error;
}
