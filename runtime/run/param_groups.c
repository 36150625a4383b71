/* param_groups.c -- parameter groups: update counts, loss scale and AdamW settings of each.
 *
 * Keeps: a group without flags of its own uses the common ones. */
#include "runtime/run/param_groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/files/json.h"
#include "runtime/adamw_args.h"
#include "runtime/run/schedule.h"

enum {
    SETS_MAX = 8,
    SCALE_SEARCH = 40,           /* consecutive updates from the largest loss scale to the
                                    smallest */
    SKIPS = 3                    /* consecutive updates that --nonfinite skip allows */
};

typedef struct {
    int64_t updates;             /* made so far, AdamW's t; without skipped ones */
    int64_t skipped;             /* consecutive ones */
    double lr, norm;             /* of the last update */
    bool begun;
} State;

static struct {
    const ParamGroupRow *row;
    const Flags *f;
    int n;
    int64_t ranks;
    State state[SETS_MAX];
} sets;

static const int common[SET_FLAGS] = {
#define SET_FLAG(name) FLAG_##name,
#include "runtime/run/param_groups.def"
#undef SET_FLAG
};

static int flag_of(int set, int which)
{
    int group_flag = sets.row[set].flag[which];
    return group_flag ? group_flag : common[which];
}

static double number(int set, int which)
{
    return flags_number(sets.f, flag_of(set, which));
}

static const char *word(int set, int which)
{
    return flags_word(sets.f, flag_of(set, which));
}

/* True if flag i is X_lr and there is no group X. min_lr is a common flag, not the lr of a group
 * "min". */
static bool of_no_set(int i)
{
    const char *name = flags_name(i);
    bool of_some = false;
    for (int k = 0; k < SET_FLAGS; k++) {
        const char *tail = flags_name(common[k]);
        size_t n = strlen(name), end = strlen(tail);
        if (i == common[k])
            return false;
        for (int set = 0; set < sets.n; set++)
            if (sets.row[set].flag[k] == i)
                return false;
        of_some |= n >= end + 2 && name[n - end - 1] == '_' && !strcmp(name + n - end, tail);
    }
    return of_some;
}

/* Warns about flags that no schedule of their groups uses. */
static void note_unused(void)
{
    static const struct {
        int which;
        bool (*takes)(const char *schedule);
        const char *why;
    } rows[] = {{SET_FLAG_warmup, schedule_warms, "has no warm-up"},
                {SET_FLAG_min_lr, schedule_floors, "has no floor"},
                {SET_FLAG_beta1, schedule_keeps_beta1, "has its own: 0.95, 0.85, 0.95"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int set = 0; set < sets.n; set++) {
            const int flag = flag_of(set, rows[i].which);
            bool taken = !sets.f->given[flag] || !(number(set, rows[i].which) > 0);
            for (int other = 0; other < sets.n; other++)
                taken = taken || (flag_of(other, rows[i].which) == flag &&
                                  (other < set || rows[i].takes(word(other, SET_FLAG_schedule))));
            if (!taken)
                note("%s %g does nothing: --schedule %s %s", flags_spelt(flag),
                     number(set, rows[i].which), word(set, SET_FLAG_schedule), rows[i].why);
        }
}

/* EXIT_CONFIG if a schedule would rise from its peak to its floor. */
static void check_floors(void)
{
    for (int i = 0; i < sets.n; i++) {
        const char *schedule = word(i, SET_FLAG_schedule);
        const double peak = schedule_scaled(word(i, SET_FLAG_lr_scale), number(i, SET_FLAG_lr),
                                            sets.ranks),
                     floor = schedule_floor(schedule, number(i, SET_FLAG_min_lr));
        if (peak > 0 && floor > peak && schedule_floors(schedule))
            die(EXIT_CONFIG, "%s %g is above %s %g, the peak of the schedule: lower it",
                flags_spelt(flag_of(i, SET_FLAG_min_lr)), floor,
                flags_spelt(flag_of(i, SET_FLAG_lr)), peak);
    }
}

/* Ends the program if a warm-up is neither a whole number of steps nor a share. */
static void check_warmups(void)
{
    for (int i = 0; i < sets.n; i++) {
        const double warmup = number(i, SET_FLAG_warmup);
        if (warmup >= 1 && floor(warmup) != warmup)
            die(EXIT_CONFIG, "%s %g: must be a whole number of steps, or below 1, a share of all "
                "steps", flags_spelt(flag_of(i, SET_FLAG_warmup)), warmup);
    }
}

void param_groups_note_warmup(int64_t total)
{
    for (int i = 0; i < sets.n; i++) {
        const char *schedule = word(i, SET_FLAG_schedule);
        const int64_t warmup = schedule_warmup(number(i, SET_FLAG_warmup),
                                               word(i, SET_FLAG_warmup_round), total);
        if (!sets.row[i].with_step || !schedule_warms(schedule) || total < 1 || warmup < total)
            continue;
        note("%s %" PRId64 ": the run has only %" PRId64 " steps and ends at %.3g of its rate; "
             "%s 0.03 is a share of all steps", flags_spelt(flag_of(i, SET_FLAG_warmup)), warmup,
             total, (double)(total - 1) / (double)warmup,
             flags_spelt(flag_of(i, SET_FLAG_warmup)));
    }
}

void param_groups_open(const ParamGroupRow *row, int n, const Flags *f, int64_t ranks)
{
    sets.row = row;
    sets.n = n;
    sets.f = f;
    sets.ranks = ranks;
    if (n > SETS_MAX)
        die(EXIT_INTERNAL, "%d parameter groups, room for %d", n, SETS_MAX);
    for (int i = 0; i < n; i++)
        sets.state[i] = (State){.lr = NAN, .norm = NAN};
    for (int i = 0; i < FLAG_COUNT; i++)
        if (f->given[i] && of_no_set(i))
            die(EXIT_CONFIG, "%s: this program does not train that parameter group",
                flags_spelt(i));
    check_floors();
    check_warmups();
    note_unused();
}

void param_groups_check_order(void)
{
    for (int i = 0; i < sets.n; i++) {
        const char *rule = word(i, SET_FLAG_lr_scale);
        if (strcmp(rule, "none"))
            die(EXIT_CONFIG, "%s %s: comm.order = canonical trains alike on any number of ranks, "
                "but this rate counts them; give none, and the rate itself with %s",
                flags_spelt(flag_of(i, SET_FLAG_lr_scale)), rule,
                flags_spelt(flag_of(i, SET_FLAG_lr)));
    }
}

void param_groups_check_backward(void)
{
    const double clip = number(0, SET_FLAG_clip);
    const char *flag = flags_spelt(flag_of(0, SET_FLAG_clip));
    if (clip > 0)
        die(EXIT_CONFIG, "%s %g%s: this program updates weights inside the backward pass, before "
            "the gradient's norm is known; give %s 0, or build the recipe with "
            "optim.when=step", flag, clip,
            sets.f->given[flag_of(0, SET_FLAG_clip)] ? "" : ", as this run began", flag);
    if (!strcmp(sets.f->nonfinite, "skip"))
        die(EXIT_CONFIG, "%s skip: this program updates weights inside the backward pass, before "
            "the gradient's norm is known, and cannot skip an update; give %s stop, or build the "
            "recipe with optim.when=step", flags_spelt(FLAG_nonfinite),
            flags_spelt(FLAG_nonfinite));
}

/* ---- an update ------------------------------------------------------------------------------- */

void param_group_begin(int set, int64_t turn, int64_t total)
{
    State *s = &sets.state[set];
    float *adamw_args = *sets.row[set].adamw_args;
    const char *course = word(set, SET_FLAG_schedule);
    double t = (double)s->updates + 1, lr = number(set, SET_FLAG_lr),
           peak = schedule_scaled(word(set, SET_FLAG_lr_scale), lr, sets.ranks);
    int64_t warmup = schedule_warmup(number(set, SET_FLAG_warmup), word(set, SET_FLAG_warmup_round),
                                     total);
    s->lr = schedule_lr(course, peak, number(set, SET_FLAG_min_lr), turn, warmup, total);
    s->begun = true;
    adamw_args[ADAMW_LR] = (float)s->lr;
    adamw_args[ADAMW_BETA1] =
        (float)schedule_beta1(course, number(set, SET_FLAG_beta1), turn, total);
    adamw_args[ADAMW_BETA2] = (float)number(set, SET_FLAG_beta2);
    adamw_args[ADAMW_EPS] = (float)number(set, SET_FLAG_eps);
    adamw_args[ADAMW_DECAY] = (float)number(set, SET_FLAG_weight_decay);
    /* of the fp32 decays: otherwise the weights of the moments do not sum to 1 */
    adamw_args[ADAMW_BIAS1] = (float)(1 - pow(adamw_args[ADAMW_BETA1], t));
    adamw_args[ADAMW_BIAS2] = (float)(1 - pow(adamw_args[ADAMW_BETA2], t));
    adamw_args[ADAMW_CLIP] = (float)number(set, SET_FLAG_clip);
    if (sets.row[set].rounding) {
        uint32_t *key = *sets.row[set].rounding;
        key[0] = (uint32_t)sets.f->seed, key[1] = (uint32_t)((uint64_t)sets.f->seed >> 32);
        key[2] = (uint32_t)turn, key[3] = 0;
    }
}

void param_groups_begin(int64_t step, int64_t total)
{
    for (int i = 0; i < sets.n; i++)
        if (sets.row[i].with_step)
            param_group_begin(i, step, total);
}

bool param_group_end(int set, bool finite)
{
    State *s = &sets.state[set];
    if (!s->begun)
        return true;
    s->begun = false;
    s->norm = **sets.row[set].norm;
    if (finite && isfinite(s->norm)) {
        s->skipped = 0;
        s->updates++;
        return true;
    }
    if (!finite || !sets.row[set].scaler || ++s->skipped > SCALE_SEARCH)
        return false;
    note("step %" PRId64 ": a gradient left fp16's range: update%s%s skipped, the loss scale "
         "halved", world.step, set ? " of the group " : "", set ? sets.row[set].name : "");
    return true;
}

bool param_group_skip(int set)
{
    State *s = &sets.state[set];
    return !strcmp(sets.f->nonfinite, "skip") && !isfinite(s->norm) && ++s->skipped <= SKIPS;
}

double param_group_lr(int set)
{
    return sets.state[set].lr;
}

double param_group_norm(int set)
{
    return sets.state[set].norm;
}

/* ---- records and checkpoints ----------------------------------------------------------------- */

static void add_float(cJSON *to, const char *key, double x)
{
    if (isfinite(x))
        json_add_float(to, key, x);
    else
        cJSON_AddNullToObject(to, key);
}

void param_groups_record(cJSON *record)
{
    for (int i = 1; i < sets.n; i++) {
        char *norm = format("grad_norm_%s", sets.row[i].name),
             *lr = format("learning_rate_%s", sets.row[i].name);
        add_float(record, norm, sets.state[i].norm);
        add_float(record, lr, sets.state[i].lr);
        free(norm), free(lr);
    }
}

/* Keeps the ranks that --lr-scale counts at those of the run's start. */
int64_t param_groups_ranks(bool lr_changed, const cJSON *state, int64_t now)
{
    const cJSON *began = json_get(state, "lr_ranks");
    return cJSON_IsNumber(began) && !lr_changed ? (int64_t)began->valuedouble : now;
}

static void save(cJSON *to, int set)
{
    const State *s = &sets.state[set];
    cJSON_AddNumberToObject(to, "updates", (double)s->updates);
    cJSON_AddNumberToObject(to, "skipped", (double)s->skipped);
    if (!sets.row[set].scaler)
        return;
    float scaler[2];
    array_read(scaler, *sets.row[set].scaler, sizeof scaler);
    cJSON_AddNumberToObject(to, "loss_scale", scaler[0]);
    cJSON_AddNumberToObject(to, "loss_scale_steps", scaler[1]);
}

void param_groups_save(cJSON *state)
{
    save(state, 0);
    cJSON_AddNumberToObject(state, "lr_ranks", (double)sets.ranks);
    cJSON *others = sets.n > 1 ? cJSON_AddObjectToObject(state, "sets") : NULL;
    for (int i = 1; i < sets.n; i++) {
        cJSON *to = cJSON_AddObjectToObject(others, sets.row[i].name);
        save(to, i);
        add_float(to, "lr", sets.state[i].lr);
        add_float(to, "norm", sets.state[i].norm);
    }
}

/* Returns NULL, or a malloc'ed message naming what is missing. */
static char *load(const cJSON *from, int set)
{
    State *s = &sets.state[set];
    const cJSON *updates = json_get(from, "updates"), *skipped = json_get(from, "skipped");
    if (!cJSON_IsNumber(updates) || !cJSON_IsNumber(skipped))
        return format("updates or skipped is missing");
    s->updates = (int64_t)updates->valuedouble;
    s->skipped = (int64_t)skipped->valuedouble;
    if (!sets.row[set].scaler)
        return NULL;
    const cJSON *scale = json_get(from, "loss_scale"), *steps = json_get(from, "loss_scale_steps");
    if (!cJSON_IsNumber(scale) || !cJSON_IsNumber(steps))
        return format("loss_scale is missing");
    float scaler[2] = {(float)scale->valuedouble, (float)steps->valuedouble};
    array_write(*sets.row[set].scaler, scaler, sizeof scaler);
    return NULL;
}

/* null: NAN. */
static double float_of(const cJSON *from, const char *key)
{
    const cJSON *v = json_get(from, key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

char *param_groups_load(const cJSON *state)
{
    char *error = load(state, 0);
    for (int i = 1; i < sets.n && !error; i++) {
        const cJSON *from = json_get(json_get(state, "sets"), sets.row[i].name);
        char *missing = load(from, i);
        if (missing)
            error = format("of the group %s %s", sets.row[i].name, missing);
        free(missing);
        sets.state[i].lr = float_of(from, "lr");
        sets.state[i].norm = float_of(from, "norm");
    }
    return error;
}
