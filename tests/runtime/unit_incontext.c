/* unit_incontext.c -- agents in darkroom by models of which every answer is known: returns, contexts,
 * draws. */
#include "unit.h"
#include "../../runtime/darkroom.h"
#include "../../runtime/files/folder.h"
#include "../../runtime/files/json.h"
#include "../../runtime/run/incontext.h"
#include "../../runtime/run/regions.h"
#include "../../runtime/run/returns.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, PLACES = 40, TYPES = 3, WIDTH = DARKROOM_ACTIONS + TYPES, EPISODES = 6,
       STEPS = EPISODES * DARKROOM_EPISODE, AGENTS = 5 };

static int32_t tokens[ROWS * PLACES], at[ROWS * PLACES], query[ROWS];
static float told[ROWS * WIDTH];
static double returns[AGENTS][EPISODES];
static uint16_t taken[AGENTS][STEPS];
static Agent agents[AGENTS];

/* The model's answer; it sees row b's sequence of n tokens. */
static int (*action_of)(const int32_t *sequence, int64_t n, bool *closes);
static int64_t passes, malformed, seen_longest, unlike;

/* A row's sequence as the program finds it: from its first place to the query. */
static const float *logits(void)
{
    for (int64_t b = 0; b < ROWS; b++) {
        const int64_t n = query[b] - b * PLACES + 1;
        const int32_t *sequence = tokens + b * PLACES;
        bool closes = false;
        malformed += n < 1 || n > PLACES || !darkroom_is_query(sequence[n - 1]);
        for (int64_t i = 0; i < n; i++)
            malformed += at[b * PLACES + i] != i || (i < n - 1 && darkroom_is_query(sequence[i]));
        seen_longest = n > seen_longest ? n : seen_longest;
        const int action = action_of(sequence, n, &closes);
        for (int64_t k = 0; k < WIDTH; k++)
            told[b * WIDTH + k] = action < 0 && k < DARKROOM_ACTIONS ? 0 : -100;
        if (action >= 0)
            told[b * WIDTH + action] = 100;
        told[b * WIDTH + DARKROOM_ACTIONS + (closes ? 2 : 0)] = 1;
    }
    passes++;
    return told;
}

static Actor actor = {ROWS, PLACES, TYPES, tokens, at, query, false, logits};

static void run(const InContext *how, const int *task, int64_t n)
{
    InContextCost cost = {0};
    memset(returns, 0x7f, sizeof returns);
    memset(taken, 0, sizeof taken);
    passes = malformed = seen_longest = 0;
    for (int64_t i = 0; i < n; i++)
        agents[i] = (Agent){.task = task[i], .stream = i, .returns = returns[i], .taken = taken[i]};
    incontext_run(&actor, how, agents, n, &cost);
    unlike += malformed + (cost.steps != n * how->episodes * DARKROOM_EPISODE) + (cost.passes != passes);
}

/* ---- returns --------------------------------------------------------------------------------- */

/* To a goal that it was told, and there it stays. */
static int walker_goal;
static int walk(const int32_t *sequence, int64_t n, bool *closes)
{
    const int state = darkroom_state_of(sequence[n - 1]);
    (void)closes;
    for (int move = 0; move < DARKROOM_ACTIONS; move++)
        if (darkroom_distance(darkroom_move(state, move), walker_goal) < darkroom_distance(state, walker_goal))
            return move;
    return 4;
}

/* It knows nothing but its context: to where a transition had a reward, else along the grid. */
static int learn(const int32_t *sequence, int64_t n, bool *closes)
{
    for (int64_t i = 0; i < n - 1; i++)
        if (darkroom_is_transition(sequence[i]) && darkroom_reward_of(sequence[i])) {
            walker_goal = darkroom_next_of(40, sequence[i]);
            return walk(sequence, n, closes);
        }
    return 0;
}

static void known_returns(void)
{
    InContext how = {.rules = {.env = DARKROOM_DARKROOM, .n_transit = PLACES}, .episodes = EPISODES, .seed = 1,
                     .temperature = 1};
    bool best = true;
    for (int i = 0; i < darkroom_tests(how.rules.env); i++) {
        const int task = darkroom_test(how.rules.env, i);
        action_of = walk, walker_goal = task;
        run(&how, &task, 1);
        for (int e = 0; e < EPISODES; e++)
            best &= returns[0][e] == darkroom_best(how.rules.env, task);
    }
    check(best, "incontext.who walks to the goal has the best return", "another");
    /* row + 1 four times from the centre, then along the wall: a goal below the centre is met, and
     * then known; one above it never */
    const int tasks[] = {9 * 6 + 4, 9 * 2 + 4};
    action_of = learn;
    run(&how, tasks, 2);
    check(returns[0][0] == 19 && returns[0][1] == 19 && returns[1][EPISODES - 1] == 0,
          "incontext.what was seen stays in the context across episodes", "%g %g %g", returns[0][0],
          returns[0][1], returns[1][EPISODES - 1]);
    how.rules.env = DARKROOM_PERMUTED;
    const int order = 119;       /* actions 0 .. 4 are the moves 4 .. 0: action 0 stays */
    action_of = learn;
    run(&how, &order, 1);
    check(returns[0][0] == 0 && darkroom_state_of(taken[0][STEPS - 1]) == 0,
          "incontext.orders of moves", "return %g, at %d", returns[0][0],
          darkroom_state_of(taken[0][STEPS - 1]));
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* The sequence as the document has it, rebuilt from all transitions of a row: a list is kept
 * token by token, and cut. Regions close where they are `closes_at` long. */
static struct {
    InContext how;
    int64_t closes_at, wrong, turns;
    int64_t before, from, to;
} brute;

static int32_t expected[STEPS + 4];

static int64_t rebuild(const InContext *how, const uint16_t *all, int64_t before, int64_t from,
                       int64_t to, int state)
{
    int64_t n = 0;
    if (!how->rules.compressed) {
        for (int64_t i = to - (how->rules.n_transit - 1) < 0 ? 0 : to - (how->rules.n_transit - 1); i < to; i++)
            expected[n++] = all[i];
        expected[n++] = 4860 + state;
        return n;
    }
    if (before < from) {
        expected[n++] = 4941;
        for (int64_t i = before; i < from; i++)
            expected[n++] = all[i];
        expected[n++] = 4942;
    }
    expected[n++] = 4941;
    for (int64_t i = from; i < to; i++)
        expected[n++] = all[i];
    expected[n++] = 4860 + state;
    for (; n > how->rules.n_transit; n--)
        memmove(expected + 1, expected + 2, sizeof *expected * (size_t)(n - 2));
    return n;
}

/* One agent. Looks at its sequence, then acts as if drawn; says a region is full when it is. */
static int watch(const int32_t *sequence, int64_t n, bool *closes)
{
    const int64_t present = brute.to - brute.from;
    if (sequence != tokens)      /* a free row */
        return 0;
    const int state = darkroom_state_of(sequence[n - 1]);
    const int64_t want = rebuild(&brute.how, taken[0], brute.before, brute.from, brute.to, state);
    brute.wrong += want != n || memcmp(expected, sequence, sizeof *sequence * (size_t)n);
    /* also where it has nothing to close: then nothing happens */
    *closes = brute.closes_at && (present >= brute.closes_at || present == 0);
    if (*closes && present > 0) {
        brute.before = brute.from, brute.from = brute.to;
        brute.turns++;
        return 1;                /* not taken */
    }
    brute.to++;
    return (int)(brute.to * 7 / 3 % 5);
}

static void contexts(const char *name, bool compressed, int64_t longest, int64_t closes_at)
{
    const int task = 9 * 4 + 6;
    char what[80];
    memset(&brute, 0, sizeof brute);
    brute.how = (InContext){{.env = DARKROOM_DARKROOM, .compressed = compressed, .n_transit = longest},
                            .episodes = EPISODES, .seed = 3, .temperature = 1};
    brute.closes_at = closes_at;
    action_of = watch;
    run(&brute.how, &task, 1);
    snprintf(what, sizeof what, "incontext.context, %s", name);
    check(!brute.wrong && brute.to == STEPS && seen_longest == longest, what,
          "%lld of %d are another, longest %lld", (long long)brute.wrong, STEPS, (long long)seen_longest);
    snprintf(what, sizeof what, "incontext.turns, %s", name);
    check(agents[0].turns == brute.turns && passes == STEPS + brute.turns &&
              brute.turns == (closes_at ? (STEPS - 1) / closes_at : 0),
          what, "%lld turns, %lld passes", (long long)agents[0].turns, (long long)passes);
    check(agents[0].closed == brute.turns * closes_at, what, "%lld steps in %lld closed regions",
          (long long)agents[0].closed, (long long)brute.turns);
}

/* Transitions by the rules, written here once more. */
static void transitions(bool reset)
{
    const InContext how = {{.n_transit = 5}, .reset = reset, .episodes = EPISODES, .seed = 3, .temperature = 1};
    const int task = 9 * 4 + 6;
    int row = 4, column = 4, wrong = 0;
    memset(&brute, 0, sizeof brute);
    brute.how = how;
    action_of = watch;
    run(&how, &task, 1);
    for (int i = 0; i < STEPS; i++) {
        const int action = (i + 1) * 7 / 3 % 5, code = taken[0][i];
        static const int down[] = {1, -1, 0, 0, 0}, right[] = {0, 0, 1, -1, 0};
        int to_row = row + down[action], to_column = column + right[action];
        to_row = to_row < 0 ? 0 : to_row > 8 ? 8 : to_row;
        to_column = to_column < 0 ? 0 : to_column > 8 ? 8 : to_column;
        const int end = (i + 1) % 20 == 0, next = end && reset ? 40 : 9 * to_row + to_column;
        wrong += darkroom_state_of(code) != 9 * row + column || darkroom_action_of(code) != action ||
                 darkroom_reward_of(code) != (to_row == 4 && to_column == 6) || darkroom_next_of(40, code) != next;
        row = end ? 4 : to_row, column = end ? 4 : to_column;
    }
    check(!wrong && !brute.wrong, reset ? "incontext.transitions, of an episode's last step to the start"
                                        : "incontext.transitions", "%d are others", wrong);
}

/* ---- draws ----------------------------------------------------------------------------------- */

static void draws_at(double temperature)
{
    const float x[] = {0.5f, 2.0f, -1.0f, -30.0f, 1.0f};
    double sum = 0, worst = 0;
    int seen[5] = {0};
    enum { N = 20000 };
    for (int a = 0; a < 5; a++)
        sum += exp(x[a] / temperature);
    for (int i = 0; i < N; i++)
        seen[incontext_draw(x, temperature, 11, i % 8, i / 8 % 50, i / 400)]++;
    for (int a = 0; a < 5; a++) {
        const double p = exp(x[a] / temperature) / sum, z = fabs(seen[a] - p * N) / sqrt(p * (1 - p) * N + 1e-9);
        worst = z > worst ? z : worst;
    }
    check(worst < 5, "incontext.draws as the softmax says", "temperature %g: %.1f standard deviations off",
          temperature, worst);
}

static void draws(void)
{
    draws_at(1), draws_at(0.6), draws_at(3);
    const float tied[5] = {1, 3, 0, 3, -2};
    bool likeliest = true;
    for (int i = 0; i < 200; i++)
        likeliest &= incontext_draw(tied, 0, 11, 0, 0, i) == 1;
    check(likeliest, "incontext.temperature 0 takes the likeliest, of several the first", "not");
    const float even[5] = {0};
    bool same = true, moved[4] = {false};
    for (int i = 1; i < 200; i++) {
        const int base = incontext_draw(even, 1, 1, 0, 0, 0);
        same &= incontext_draw(even, 1, 1, i, i, i) == incontext_draw(even, 1, 1, i, i, i);
        moved[0] |= base != incontext_draw(even, 1, (uint64_t)i << 32 | 1, 0, 0, 0);
        moved[1] |= base != incontext_draw(even, 1, 1, i, 0, 0);
        moved[2] |= base != incontext_draw(even, 1, 1, 0, i, 0);
        moved[3] |= base != incontext_draw(even, 1, 1, 0, 0, i);
    }
    check(same && moved[0] && moved[1] && moved[2] && moved[3],
          "incontext.a draw is that of seed, task, stream and step", "not");
}

/* By chance, and regions by what they hold: so each agent has a course of its own. */
static int chance(const int32_t *sequence, int64_t n, bool *closes)
{
    *closes = n > 3 && darkroom_is_transition(sequence[n - 2]) && sequence[n - 2] % 7 == 0;
    return -1;
}

static bool after_ten(void)
{
    return passes == 10;
}

static void stopped(void)
{
    InContext how = {{.n_transit = 5}, .episodes = EPISODES, .temperature = 1, .stopped = after_ten};
    Agent agent = {.returns = returns[0], .taken = taken[0]};
    InContextCost cost = {0};
    action_of = chance, passes = 0;
    const bool through = incontext_run(&actor, &how, &agent, 1, &cost);
    check(!through && passes == 10, "incontext.left when it is to stop", "%lld passes", (long long)passes);
}

/* Alone, with others, in another order, in a larger batch: the same. */
static void beside(void)
{
    const int tasks[AGENTS] = {3, 41, 41, 60, 80};
    static uint16_t first[AGENTS][STEPS];
    static double had[AGENTS][EPISODES];
    int64_t turns = 0;
    bool same = true;
    for (int compressed = 0; compressed < 2; compressed++) {
        const InContext how = {{.compressed = compressed, .n_transit = 24}, .episodes = EPISODES, .seed = 9,
                           .temperature = 1};
        action_of = chance;
        run(&how, tasks, AGENTS);
        memcpy(first, taken, sizeof first), memcpy(had, returns, sizeof had);
        turns += agents[1].turns;
        same &= memcmp(first[1], first[2], sizeof *first) != 0;      /* another stream */
        Agent back[AGENTS];
        InContextCost cost = {0};
        for (int i = 0; i < AGENTS; i++)
            back[i] = agents[AGENTS - 1 - i];
        memset(taken, 0, sizeof taken);
        incontext_run(&actor, &how, back, AGENTS, &cost);
        same &= memcmp(first, taken, sizeof first) == 0 && memcmp(had, returns, sizeof had) == 0;
        memset(taken, 0, sizeof taken);
        for (int i = 0; i < AGENTS; i++)
            incontext_run(&actor, &how, &agents[i], 1, &cost);
        same &= memcmp(first, taken, sizeof first) == 0 && memcmp(had, returns, sizeof had) == 0;
    }
    check(same && turns > 0, "incontext.an agent is the same with others", "another, or no turns: %lld",
          (long long)turns);
}

/* ---- returns as files ------------------------------------------------------------------------ */

static void files(const char *scratch)
{
    /* two tasks, two streams, three episodes */
    const double of[] = {0, 2, 4, 6, 0, 0, 19, 19, 19, 19, 19, 19};
    const int task[] = {38, 51};
    const Returns r = {DARKROOM_DARKROOM, 2, 2, 3, task, of};
    const Earned e = returns_of(&r, 0), all = returns_over(&r);
    check(e.mean == 2 && fabs(e.deviation - sqrt(16.0 / 3)) < 1e-15 && e.first == 3 && e.last == 2 &&
              e.success == 0.5 && e.best == 19, "returns.of a task", "%g %g %g %g %g %g", e.mean, e.deviation,
          e.first, e.last, e.success, e.best);
    static const double chance[] = {0.4560, 0.3607, 0.0899, 0.1371, 0.3607, 0.1227, 0.1227, 0.9535};
    double worst = fabs(returns_random(DARKROOM_DARKROOM, 40) - 1.1794) +
                   fabs(returns_random(DARKROOM_DARKROOM, 0) - 0.0415),
           sum = 0;
    for (int g = 0; g < 81; g++)
        sum += returns_random(DARKROOM_DARKROOM, g) / 81;
    for (int i = 0; i < 8; i++)
        worst = fmax(worst, fabs(returns_random(DARKROOM_DARKROOM, darkroom_test(DARKROOM_DARKROOM, i)) - chance[i]));
    check(worst < 1e-4 && fabs(sum - 0.2469) < 5e-5 && e.random == returns_random(DARKROOM_DARKROOM, 38),
          "returns.by chance", "%g off, mean %g", worst, sum);
    check(all.mean == 10.5 && all.deviation == 8.5 && all.success == 0.75 && all.best == 18.5 && all.first == 11,
          "returns.over tasks", "%g %g %g %g %g", all.mean, all.deviation, all.success, all.best, all.first);
    cJSON *about = cJSON_CreateObject();
    cJSON_AddNumberToObject(about, "seed", 7);
    char *error = returns_write(&r, scratch, "earned", about), path[512];
    snprintf(path, sizeof path, "%s/earned.npy", scratch);
    unsigned char got[512];
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(got, 1, sizeof got, f) : 0;
    if (f)
        fclose(f);
    /* as numpy.save() writes it */
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
    const double mean[] = {3, 1, 2, 19, 19, 19};
    check(!error && n == 128 + sizeof mean && !memcmp(got, head, sizeof head - 1) && got[126] == ' ' &&
              got[127] == '\n' && !memcmp(got + 128, mean, sizeof mean),
          "returns.a .npy as numpy writes it", "%s, %zu bytes", error ? error : "", n);
    free(error);
    cJSON *json = folder_read_json(scratch, "earned.json", 1 << 16, &error);
    const cJSON *rows = json_get(json, "tasks"), *second = cJSON_GetArrayItem(rows, 1);
    check(json && json_get(json, "seed")->valuedouble == 7 && json_get(json, "return")->valuedouble == 10.5 &&
              cJSON_GetArraySize(rows) == 2 && json_get(second, "best_possible")->valuedouble == 18 &&
              cJSON_GetArrayItem(json_get(second, "goal"), 1)->valuedouble == 6 &&
              cJSON_GetArrayItem(json_get(json, "by_episode"), 2)->valuedouble == 10.5,
          "returns.the same as JSON", "%s", error ? error : "other values");
    cJSON_Delete(json);
}

static void regions(void)
{
    enum { N = 230, LINES = 4 };
    static uint16_t code[2 * N];
    static const char want[] =
        "     0  <...1................|....................|....................|....................>   1  0  0  0\n"
        "    80  <11111...............|....................|....................|....................>   5  0  0  0\n"
        "   160  <....................|....................|....................|.........1  0  0  0\n"
        "2 streams, mean return: 0.25 0.62\n";
    char *text = NULL;
    size_t n;
    for (int t = 0; t < 2 * N; t++)
        code[t] = (uint16_t)darkroom_code(40, 40, 4, t == 3 || (t >= 80 && t < 85) || t == N - 1 || t == N, 40);
    const Histories h = {.tasks = 1, .streams = 2, .steps = N, .code = code};
    FILE *to = open_memstream(&text, &n);
    regions_print(to, &(RegionsOf){&h, 0, .streams = 2, .steps = N, .region = 80});
    fclose(to);
    check(!strcmp(text, want), "regions.rewards and marks", "%s", text);
    free(text);
    static const char of_thirty[] =
        "     0  <...1................|..........>   1\n"
        "    30  <..........|....................>   0  0\n"
        "    60  <....................|1111  0\n"
        "1 streams, mean return: 0.67 0.00\n";
    to = open_memstream(&text, &n);
    regions_print(to, &(RegionsOf){&h, 0, .streams = 1, .steps = 84, .region = 30});
    fclose(to);
    check(!strcmp(text, of_thirty), "regions.as they are cut", "%s", text);
    free(text);
}

void test_incontext(const char *scratch)
{
    regions();
    files(scratch);
    known_returns();
    contexts("plain, growing", false, PLACES, 0);
    contexts("plain, sliding", false, 7, 0);
    contexts("plain, of a query alone", false, 1, 0);
    contexts("compressed", true, 36, 16);
    contexts("compressed, regions of one", true, 6, 1);
    contexts("compressed, cut", true, 20, 16);
    contexts("compressed, never closed", true, 30, 0);
    transitions(false);
    transitions(true);
    draws();
    beside();
    stopped();
    check(!unlike, "incontext.sequences have a query, and places from 0; passes are counted", "%lld are others",
          (long long)unlike);
}
