/* unit_darkroom.c -- darkroom: its rules against a second set of them, tasks, codes, and what a policy without
 * knowledge gets of it. */
#include "unit.h"
#include "../../runtime/darkroom.h"
#include <math.h>

enum { STATES = DARKROOM_STATES };

/* By coordinates, from what the moves are called. */
static int walk(int state, int move)
{
    static const int by[5][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {0, 0}};
    const int row = state / 9 + by[move][0], column = state % 9 + by[move][1];
    if (row < 0 || row > 8)
        return state;
    return column < 0 || column > 8 ? 9 * row + state % 9 : 9 * row + column;
}

static void rules(void)
{
    bool moves = true, rewards = true;
    for (int state = 0; state < STATES; state++)
        for (int move = 0; move < 5; move++) {
            moves &= darkroom_move(state, move) == walk(state, move);
            moves &= darkroom_step(DARKROOM_DARKROOM, 7, state, move) == walk(state, move);
            for (int goal = 0; goal < STATES; goal++)
                rewards &= darkroom_reward(DARKROOM_DARKROOM, goal, state) == (state == goal);
        }
    check(moves, "darkroom.moves", "a move leads elsewhere");
    check(rewards, "darkroom.reward", "not 1 just on the goal");
    check(darkroom_start(DARKROOM_DARKROOM) == 40 && darkroom_start(DARKROOM_PERMUTED) == 0 &&
              darkroom_goal(DARKROOM_PERMUTED, 3) == 80 && darkroom_reward(DARKROOM_PERMUTED, 3, 80) == 1,
          "darkroom.start and goal", "elsewhere");
}

/* The expected return of an episode of uniform actions. */
static double by_chance(int env, int task)
{
    double at[STATES] = {0}, sum = 0;
    at[darkroom_start(env)] = 1;
    for (int t = 0; t < DARKROOM_EPISODE; t++) {
        double then[STATES] = {0};
        for (int state = 0; state < STATES; state++)
            for (int a = 0; a < DARKROOM_ACTIONS; a++)
                then[darkroom_step(env, task, state, a)] += at[state] / DARKROOM_ACTIONS;
        for (int state = 0; state < STATES; state++) {
            at[state] = then[state];
            sum += at[state] * darkroom_reward(env, task, state);
        }
    }
    return sum;
}

/* The best by going back from the last step. */
static int by_search(int env, int task)
{
    int left[STATES] = {0};
    for (int t = 0; t < DARKROOM_EPISODE; t++) {
        int before[STATES] = {0};
        for (int state = 0; state < STATES; state++)
            for (int a = 0; a < DARKROOM_ACTIONS; a++) {
                const int next = darkroom_step(env, task, state, a);
                const int value = darkroom_reward(env, task, next) + left[next];
                before[state] = value > before[state] ? value : before[state];
            }
        for (int state = 0; state < STATES; state++)
            left[state] = before[state];
    }
    return left[darkroom_start(env)];
}

static void returns(void)
{
    static const double chance[8] = {0.4560, 0.3607, 0.0899, 0.1371, 0.3607, 0.1227, 0.1227, 0.9535};
    static const int best[8] = {19, 18, 15, 16, 18, 16, 16, 20};
    static const int cell[8][2] = {{4, 2}, {5, 6}, {6, 8}, {7, 2}, {3, 6}, {0, 5}, {5, 8}, {5, 4}};
    bool exact = true, cells = true, bests = true;
    double mean = 0, all = 0, all_best = 0, test_best = 0;
    for (int i = 0; i < 8; i++) {
        const int g = darkroom_test(DARKROOM_DARKROOM, i);
        cells &= g == 9 * cell[i][0] + cell[i][1] && darkroom_test_of(DARKROOM_DARKROOM, g) == i;
        exact &= fabs(by_chance(DARKROOM_DARKROOM, g) - chance[i]) < 5e-5;
        bests &= darkroom_best(DARKROOM_DARKROOM, g) == best[i];
        mean += by_chance(DARKROOM_DARKROOM, g) / 8;
        test_best += darkroom_best(DARKROOM_DARKROOM, g);
    }
    int trained = 0;
    for (int g = 0; g < STATES; g++) {
        all += by_chance(DARKROOM_DARKROOM, g) / STATES;
        all_best += darkroom_best(DARKROOM_DARKROOM, g);
        bests &= darkroom_best(DARKROOM_DARKROOM, g) == by_search(DARKROOM_DARKROOM, g);
        trained += darkroom_test_of(DARKROOM_DARKROOM, g) < 0;
    }
    check(cells && trained == 73, "darkroom.test goals", "others, or %d to train on", trained);
    check(exact && fabs(mean - 0.3254) < 5e-5, "darkroom.by chance: test goals", "mean %.4f", mean);
    check(fabs(by_chance(DARKROOM_DARKROOM, 40) - 1.1794) < 5e-5 &&
              fabs(by_chance(DARKROOM_DARKROOM, 0) - 0.0415) < 5e-5 && fabs(all - 0.2469) < 5e-5,
          "darkroom.by chance: centre, corner, all", "%.4f %.4f %.4f", by_chance(DARKROOM_DARKROOM, 40),
          by_chance(DARKROOM_DARKROOM, 0), all);
    check(bests && fabs(test_best / 8 - 17.25) < 1e-9 && fabs((all_best - test_best) / 73 - 16.466) < 5e-4 &&
              fabs(all_best / 81 - 16.543) < 5e-4,
          "darkroom.best returns", "test %.4f, all %.4f", test_best / 8, all_best / 81);
}

static void permuted(void)
{
    static const int first[][5] = {{0, 1, 2, 3, 4}, {0, 1, 2, 4, 3}, {0, 1, 3, 2, 4}};
    bool orders = true, bests = true, apart = true;
    int last = -1, trained = 0;
    for (int p = 0; p < DARKROOM_ORDERS; p++) {
        int seen = 0, number = 0;
        for (int a = 0; a < 5; a++) {
            const int move = darkroom_move_of(DARKROOM_PERMUTED, p, a);
            orders &= move >= 0 && move < 5 && (p > 2 || move == first[p][a]);
            seen |= 1 << move;
            number = 10 * number + move;
        }
        orders &= seen == 31 && number > last;
        last = number;
        bests &= darkroom_best(DARKROOM_PERMUTED, p) == 5 && by_search(DARKROOM_PERMUTED, p) == 5;
        trained += darkroom_test_of(DARKROOM_PERMUTED, p) < 0;
        apart &= darkroom_tasks(DARKROOM_PERMUTED) == 120;
    }
    check(orders && last == 43210, "darkroom.orders", "not the 120, ascending; the last is %d", last);
    check(bests && apart && trained == 108, "darkroom.permuted: tasks", "%d to train on", trained);
}

static void codes(void)
{
    bool back = true, least = true, features = true, resets = true;
    for (int code = 0; code < DARKROOM_TRANSITIONS; code++) {
        const int s = darkroom_state_of(code), a = darkroom_action_of(code), r = darkroom_reward_of(code);
        const int next = darkroom_next_of(40, code), again = darkroom_code(40, s, a, r, next);
        back &= darkroom_is_transition(code) && !darkroom_is_query(code) && darkroom_state_of(again) == s &&
                darkroom_action_of(again) == a && darkroom_reward_of(again) == r &&
                darkroom_next_of(40, again) == next;
        least &= again <= code;
        float f[DARKROOM_FEATURES];
        darkroom_features(40, code, f);
        features &= 9 * f[0] + f[1] == s && f[7] == r && 9 * f[8] + f[9] == next;
        for (int k = 0; k < 5; k++)
            features &= f[2 + k] == (k == a);
    }
    for (int s = 0; s < STATES; s++) {
        for (int a = 0; a < 5; a++)
            for (int start = 0; start <= 40; start += 40) {
                const int near = darkroom_distance(s, start) <= 1, code = darkroom_code(start, s, a, 0, start);
                resets &= (code % 6 == DARKROOM_NO_MOVE) == !near && darkroom_next_of(start, code) == start;
            }
        resets &= darkroom_is_query(darkroom_query(s)) && darkroom_state_of(darkroom_query(s)) == s;
    }
    check(back && least, "darkroom.codes", "not there and back, or not the smallest");
    check(features, "darkroom.features", "others than the transition's");
    check(resets && darkroom_code(40, 0, 0, 0, 20) == -1, "darkroom.resets, queries", "other codes");
    /* state (4,4), action 3, reward 0, next (4,3) */
    check(darkroom_code(40, 40, 3, 0, 39) == ((40 * 5 + 3) * 2) * 6 + 3 && DARKROOM_TRANSITIONS == 4860 &&
              DARKROOM_OPEN == 4941 && DARKROOM_CLOSE == 4942 && DARKROOM_CODES == 4943 &&
              !darkroom_is_query(DARKROOM_OPEN),
          "darkroom.one code", "%d", darkroom_code(40, 40, 3, 0, 39));
}

void test_darkroom(void)
{
    rules();
    returns();
    permuted();
    codes();
}
