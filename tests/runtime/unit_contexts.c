/* unit_contexts.c -- sequences cut from histories of a random policy, against lists that are made
 * one token at a time; how many there are; that asking in all places at once asks the same. */
#include "unit.h"
#include "../../runtime/darkroom.h"
#include "../../runtime/data/contexts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HISTORIES = 3, STEPS = 108, LONGEST = 600, EPISODE = 20 };

/* Past transitions, by rules of its own: wall, reward, the end of an episode. */
static struct { int state, action, reward, next; } lived[HISTORIES][STEPS];
static uint16_t codes[HISTORIES][STEPS];
static const uint16_t *history[HISTORIES];

static void live(int env)
{
    static const int by[5][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {0, 0}};
    const int begin = env == DARKROOM_PERMUTED ? 0 : 40;
    uint32_t x = 12345;
    for (int h = 0; h < HISTORIES; h++) {
        int row = 0, column = 0;
        history[h] = codes[h];
        for (int t = 0; t < STEPS; t++) {
            if (t % EPISODE == 0)
                row = begin / 9, column = begin % 9;
            x = x * 1664525u + 1013904223u;
            const int state = 9 * row + column, action = (int)(x >> 16) % 5;
            int to[2] = {row + by[action][0], column + by[action][1]};
            for (int k = 0; k < 2; k++)
                to[k] = to[k] < 0 ? 0 : to[k] > 8 ? 8 : to[k];
            row = to[0], column = to[1];
            const int next = 9 * row + column, reward = next == 30 + h;
            lived[h][t].state = state, lived[h][t].action = action;
            lived[h][t].reward = reward, lived[h][t].next = next;
            codes[h][t] = (uint16_t)darkroom_code(begin, state, action, reward, next);
        }
    }
}

static int state_before(int env, int h, int t)
{
    return t % EPISODE == 0 ? env == DARKROOM_PERMUTED ? 0 : 40
         : t < STEPS ? lived[h][t].state : lived[h][t - 1].next;
}

/* ---- the same, one token at a time ---- */

typedef struct {
    int n, token[LONGEST], action, type;
} List;

static void add(List *l, int token)
{
    l->token[l->n++] = token;
}

/* Token i goes. */
static void cut(List *l, int i)
{
    for (l->n--; i < l->n; i++)
        l->token[i] = l->token[i + 1];
}

/* The query at position t of the window or region that begins with step `first`. */
static List list_of(const ContextRules *r, int h, int first, int t)
{
    List l = {.n = 0};
    const int region = (int)r->region;
    if (r->compressed && first >= region) {
        add(&l, DARKROOM_OPEN);
        for (int i = first - region; i < first; i++)
            add(&l, codes[h][i]);
        add(&l, DARKROOM_CLOSE);
    }
    if (r->compressed)
        add(&l, DARKROOM_OPEN);
    for (int i = first; i < first + t; i++)
        add(&l, codes[h][i]);
    add(&l, 4860 + state_before(r->env, h, first + t));
    while (l.n > r->n_transit)
        cut(&l, 1);
    const bool end = r->compressed && t == (r->last ? region - 1 : region);
    l.type = end ? 2 : 0;
    l.action = end ? -1 : lived[h][first + t].action;
    return l;
}

/* ---- one against the other ---- */

typedef struct {
    int32_t token[LONGEST], position[LONGEST], query[LONGEST], action[LONGEST], type[LONGEST];
    ContextRow row;
} Room;

static void take(Room *to, const Contexts *c, int64_t sample, int64_t epoch)
{
    memset(to, 0x7f, sizeof *to);
    to->row = (ContextRow){.token = to->token, .position = to->position, .query = to->query, .action = to->action,
                           .type = to->type};
    const ContextAt at = contexts_at(c, sample, 7, epoch);
    contexts_row(c, &at, &to->row);
}

/* Query k of a row is asked what the list says, after the tokens that it sees. */
static bool same(const Room *of, int64_t k, const List *l)
{
    const int64_t at = of->query[k], seen = of->position[at];
    bool good = at >= seen && at < of->row.n && seen == l->n - 1 && of->token[at] == l->token[l->n - 1] &&
                of->action[k] == l->action && of->type[k] == l->type;
    for (int64_t i = 0; i < seen && good; i++)
        good = of->token[i] == l->token[i] && of->position[i] == i;
    return good;
}

/* Every sample in its order; how many there are and how long the longest is. */
static const char *differs(const ContextRules *r, int steps)
{
    static char why[160];
    Contexts c;
    Room of;
    int64_t sample = 0, longest = 0;
    contexts_open(&c, r, history, HISTORIES, steps);
    const int positions = (int)contexts_positions(r), cuts = r->compressed ? steps / (int)r->region
                                                                   : steps - (int)r->n_transit + 1;
    for (int h = 0; h < HISTORIES; h++)
        for (int k = 0; k < cuts; k++)
            for (int t = 0; t < positions; t++) {
                const int first = r->compressed ? k * (int)r->region : k;
                const List l = list_of(r, h, first, t);
                const bool of_all = r->all, whole = !r->compressed && !r->all;
                if (whole && t < positions - 1)
                    continue;
                if (!of_all || t == 0)
                    take(&of, &c, sample, 0);
                longest = of.row.n > longest ? of.row.n : longest;
                const ContextAt at = contexts_at(&c, sample, 7, 0);
                int64_t actions = 0;
                for (int64_t i = 0; i < of.row.queries; i++)
                    actions += of.action[i] >= 0;
                if (of.row.queries != (of_all ? positions : 1) || !same(&of, of_all ? t : 0, &l) ||
                    actions != contexts_actions(&c, &at) || of.row.n != contexts_length(&c, &at)) {
                    snprintf(why, sizeof why, "sample %lld, history %d, step %d, place %d", (long long)sample, h,
                             first, t);
                    return why;
                }
                sample += !of_all || t == positions - 1;
            }
    snprintf(why, sizeof why, "%lld samples, want %lld; longest %lld, want %lld", (long long)c.n, (long long)sample,
             (long long)contexts_tokens(r), (long long)longest);
    return c.n == sample && contexts_tokens(r) == longest ? NULL : why;
}

static void layouts(void)
{
    static const struct {
        const char *name;
        ContextRules rules;
        int steps;
    } of[] = {
        {"plain, one", {.n_transit = 24}, STEPS},
        {"plain, one transition", {.n_transit = 2}, STEPS},
        {"plain, all", {.n_transit = 24, .all = true}, STEPS},
        {"plain, as long as a history", {.n_transit = STEPS, .all = true}, STEPS},
        {"compressed, one", {.compressed = true, .n_transit = 60, .region = 20}, STEPS},
        {"compressed, one, last", {.compressed = true, .n_transit = 60, .region = 20, .last = true}, STEPS},
        {"compressed, one, cut", {.compressed = true, .n_transit = 31, .region = 20}, STEPS},
        {"compressed, one, cut to the region", {.compressed = true, .n_transit = 9, .region = 20, .last = true}, STEPS},
        {"compressed, all", {.compressed = true, .n_transit = 44, .region = 20, .all = true}, STEPS},
        {"compressed, all, last", {.compressed = true, .n_transit = 44, .region = 20, .all = true, .last = true},
            STEPS},
        {"compressed, regions of no episodes", {.compressed = true, .n_transit = 90, .region = 7}, STEPS},
        {"compressed, regions to the end", {.compressed = true, .n_transit = 900, .region = STEPS / 2}, STEPS},
        {"compressed, regions to the end of an episode", {.compressed = true, .n_transit = 900, .region = 50}, 100},
        {"compressed, permuted", {.compressed = true, .n_transit = 60, .region = 20, .env = DARKROOM_PERMUTED}, STEPS},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char name[80];
        live(of[i].rules.env);
        const char *why = differs(&of[i].rules, of[i].steps);
        snprintf(name, sizeof name, "contexts: %s", of[i].name);
        check(!why, name, "%s", why);
    }
    live(DARKROOM_DARKROOM);
}

/* ---- as many as the arithmetic says ---- */

static void counts(void)
{
    static const struct {
        ContextRules rules;
        int64_t n, tokens, positions;
    } of[] = {
        {{.n_transit = 240}, 5555300, 240, 240},
        {{.n_transit = 160}, 6139300, 160, 160},
        {{.n_transit = 80}, 6723300, 80, 80},
        {{.n_transit = 240, .ragged = true}, 5555300, 240, 240},
        {{.n_transit = 240, .all = true}, 5555300, 479, 240},
        {{.n_transit = 1001}, 0, 1001, 1001},
        {{.compressed = true, .n_transit = 240, .region = 80}, 7095600, 164, 81},
        {{.compressed = true, .n_transit = 240, .region = 80, .last = true}, 7008000, 163, 80},
        {{.compressed = true, .n_transit = 160, .region = 80}, 7095600, 160, 81},
        {{.compressed = true, .n_transit = 240, .region = 80, .all = true}, 87600, 244, 81},
        {{.compressed = true, .n_transit = 240, .region = 80, .all = true, .last = true}, 87600, 242, 80},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        Contexts c;
        char name[80];
        contexts_open(&c, &of[i].rules, NULL, 7300, 1000);
        snprintf(name, sizeof name, "contexts: %lld samples of %lld tokens", (long long)of[i].n,
                 (long long)of[i].tokens);
        check(c.n == of[i].n && contexts_tokens(&of[i].rules) == of[i].tokens &&
                  contexts_positions(&of[i].rules) == of[i].positions,
              name, "%lld of %lld, %lld places", (long long)c.n, (long long)contexts_tokens(&of[i].rules),
              (long long)contexts_positions(&of[i].rules));
    }
}

/* Any place of a window, each as often as another; the same for the same seed, epoch and sample. */
static void ragged(void)
{
    const ContextRules rules = {.n_transit = 8, .ragged = true};
    Contexts c;
    Room of;
    bool good = true;
    int64_t seen[8] = {0}, n = 0, again = 0, moved = 0;
    contexts_open(&c, &rules, history, HISTORIES, STEPS);
    for (int64_t epoch = 0; epoch < 20; epoch++)
        for (int64_t i = 0; i < c.n; i++, n++) {
            const ContextAt at = contexts_at(&c, i, 7, epoch), other = contexts_at(&c, i, 7, epoch + 1);
            const List l = list_of(&rules, (int)at.history, (int)at.first, (int)at.position);
            take(&of, &c, i, epoch);
            good = good && at.history == i / 101 && at.first == i % 101 && of.row.queries == 1 && same(&of, 0, &l) &&
                   of.row.n == contexts_length(&c, &at);
            seen[at.position]++;
            again += contexts_at(&c, i, 7, epoch).position == at.position;
            moved += other.position != at.position;
        }
    check(good, "contexts: ragged windows", "one differs from its list");
    check(again == n && moved > n * 3 / 4, "contexts: ragged, drawn by seed, epoch and sample",
          "%lld of %lld again, %lld moved", (long long)again, (long long)n, (long long)moved);
    for (int k = 0; k < 8; k++)          /* 6 standard deviations */
        good = good && fabs((double)seen[k] - (double)n / 8) < 6 * sqrt((double)n * 7 / 64);
    check(good, "contexts: ragged places are even", "%lld %lld ... %lld", (long long)seen[0], (long long)seen[1],
          (long long)seen[7]);
}

void test_contexts(void)
{
    layouts();
    counts();
    ragged();
}
