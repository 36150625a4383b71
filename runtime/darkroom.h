/* darkroom.h -- the darkroom environment: rules, tasks, transition codes.
 *
 * A grid of 9 x 9 cells, one of them rewarded. An episode is 20 steps from the start; each step
 * that ends on the goal has reward 1 and does not end the episode.
 * Source: the grid of Laskin et al. 2022, Algorithm Distillation. */
#ifndef DIECAST_DARKROOM_H
#define DIECAST_DARKROOM_H

enum {
    DARKROOM_SIDE = 9,
    DARKROOM_STATES = 81,           /* state = 9 row + column */
    DARKROOM_ACTIONS = 5,           /* moves: 0 row + 1, 1 row - 1, 2 column + 1, 3 column - 1, 4
                                       stay */
    DARKROOM_EPISODE = 20,
    DARKROOM_ORDERS = 120,          /* permutations of the five moves */
    DARKROOM_FEATURES = 10
};

/* DARKROOM: starts in the centre, task g = goal g, action = move. PERMUTED: from corner to corner,
 * task p = the p-th permutation of the moves in lexicographic order. */
enum { DARKROOM_DARKROOM, DARKROOM_PERMUTED };

/* Tokens: transitions, then queries (a state whose action is predicted), then the marks around a
 * region. */
enum {
    DARKROOM_NO_MOVE = 5,           /* in a code: the next state is the start, by a reset, which no
                                       move reaches */
    DARKROOM_TRANSITIONS = DARKROOM_STATES * DARKROOM_ACTIONS * 2 * (DARKROOM_NO_MOVE + 1),
    DARKROOM_OPEN = DARKROOM_TRANSITIONS + DARKROOM_STATES,         /* <c> */
    DARKROOM_CLOSE,                                                 /* </c> */
    DARKROOM_CODES
};

/* A kernel file may define it otherwise before including this one. */
#ifndef DARKROOM_FUNCTION
#define DARKROOM_FUNCTION static inline
#endif

/* ---- rules ---- */

DARKROOM_FUNCTION int darkroom_row(int state)
{
    return state / DARKROOM_SIDE;
}

DARKROOM_FUNCTION int darkroom_column(int state)
{
    return state % DARKROOM_SIDE;
}

DARKROOM_FUNCTION int darkroom_clip_(int x)
{
    return x < 0 ? 0 : x >= DARKROOM_SIDE ? DARKROOM_SIDE - 1 : x;
}

/* Returns the state after a move; walls block it. */
DARKROOM_FUNCTION int darkroom_move(int state, int move)
{
    const int row = darkroom_row(state) + (move == 0) - (move == 1);
    const int column = darkroom_column(state) + (move == 2) - (move == 3);
    return DARKROOM_SIDE * darkroom_clip_(row) + darkroom_clip_(column);
}

DARKROOM_FUNCTION int darkroom_distance(int a, int b)
{
    const int rows = darkroom_row(a) - darkroom_row(b),
              columns = darkroom_column(a) - darkroom_column(b);
    return (rows < 0 ? -rows : rows) + (columns < 0 ? -columns : columns);
}

/* ---- tasks ---- */

DARKROOM_FUNCTION int darkroom_tasks(int env)
{
    return env == DARKROOM_PERMUTED ? DARKROOM_ORDERS : DARKROOM_STATES;
}

DARKROOM_FUNCTION int darkroom_start(int env)
{
    return env == DARKROOM_PERMUTED ? 0 : DARKROOM_STATES / 2;
}

DARKROOM_FUNCTION int darkroom_goal(int env, int task)
{
    return env == DARKROOM_PERMUTED ? DARKROOM_STATES - 1 : task;
}

/* Returns the move of an action. */
DARKROOM_FUNCTION int darkroom_move_of(int env, int task, int action)
{
    if (env != DARKROOM_PERMUTED)
        return action;
    int left[DARKROOM_ACTIONS] = {0, 1, 2, 3, 4};
    int orders = DARKROOM_ORDERS;
    for (int k = 0;; k++) {
        orders /= DARKROOM_ACTIONS - k;
        const int taken = task / orders;
        if (k == action)
            return left[taken];
        task %= orders;
        for (int i = taken; i + 1 < DARKROOM_ACTIONS - k; i++)
            left[i] = left[i + 1];
    }
}

/* Returns the state after an action. */
DARKROOM_FUNCTION int darkroom_step(int env, int task, int state, int action)
{
    return darkroom_move(state, darkroom_move_of(env, task, action));
}

/* Returns the reward of a step that ends in `next`. */
DARKROOM_FUNCTION int darkroom_reward(int env, int task, int next)
{
    return next == darkroom_goal(env, task);
}

/* Returns the largest possible return of an episode. */
DARKROOM_FUNCTION int darkroom_best(int env, int task)
{
    const int away = darkroom_distance(darkroom_start(env), darkroom_goal(env, task));
    return away ? DARKROOM_EPISODE + 1 - away : DARKROOM_EPISODE;
}

/* HeldOut-out test tasks: their number, and the i-th one. They are the end of a shuffle that is
 * fixed here. */
DARKROOM_FUNCTION int darkroom_tests(int env)
{
    return env == DARKROOM_PERMUTED ? 12 : 8;
}

DARKROOM_FUNCTION int darkroom_test(int env, int i)
{
    const unsigned char goals[8] = {38, 51, 62, 65, 33, 5, 53, 49};
    const unsigned char orders[12] = {106, 100, 51, 62, 65, 33, 5, 53, 113, 97, 49, 108};
    return env == DARKROOM_PERMUTED ? orders[i] : goals[i];
}

/* Returns the index of a task among the test tasks; -1: a training task. */
DARKROOM_FUNCTION int darkroom_test_of(int env, int task)
{
    for (int i = 0; i < darkroom_tests(env); i++)
        if (darkroom_test(env, i) == task)
            return i;
    return -1;
}

/* ---- codes of tokens ---- */

/* Returns ((state * 5 + action) * 2 + reward) * 6 + the smallest move from state to next, or
 * DARKROOM_NO_MOVE if next is the start; -1: neither. Independent of the task. */
DARKROOM_FUNCTION int darkroom_code(int start, int state, int action, int reward, int next)
{
    int move = 0;
    while (move < DARKROOM_ACTIONS && darkroom_move(state, move) != next)
        move++;
    if (move == DARKROOM_ACTIONS && next != start)
        return -1;
    return ((state * DARKROOM_ACTIONS + action) * 2 + reward) * (DARKROOM_NO_MOVE + 1) + move;
}

DARKROOM_FUNCTION int darkroom_query(int state)
{
    return DARKROOM_TRANSITIONS + state;
}

DARKROOM_FUNCTION int darkroom_is_transition(int code)
{
    return code >= 0 && code < DARKROOM_TRANSITIONS;
}

DARKROOM_FUNCTION int darkroom_is_query(int code)
{
    return code >= DARKROOM_TRANSITIONS && code < DARKROOM_OPEN;
}

/* Returns the state of a transition or a query. */
DARKROOM_FUNCTION int darkroom_state_of(int code)
{
    return code < DARKROOM_TRANSITIONS ? code / (DARKROOM_ACTIONS * 2 * (DARKROOM_NO_MOVE + 1))
                                       : code - DARKROOM_TRANSITIONS;
}

/* Return the other parts of a transition. */
DARKROOM_FUNCTION int darkroom_action_of(int code)
{
    return code / (2 * (DARKROOM_NO_MOVE + 1)) % DARKROOM_ACTIONS;
}

DARKROOM_FUNCTION int darkroom_reward_of(int code)
{
    return code / (DARKROOM_NO_MOVE + 1) % 2;
}

DARKROOM_FUNCTION int darkroom_next_of(int start, int code)
{
    const int move = code % (DARKROOM_NO_MOVE + 1);
    return move == DARKROOM_NO_MOVE ? start : darkroom_move(darkroom_state_of(code), move);
}

/* Writes the features of a transition: row, column, one-hot action (5), reward, next row, next
 * column. */
DARKROOM_FUNCTION void darkroom_features(int start, int code, float f[DARKROOM_FEATURES])
{
    const int state = darkroom_state_of(code), next = darkroom_next_of(start, code);
    f[0] = (float)darkroom_row(state);
    f[1] = (float)darkroom_column(state);
    for (int a = 0; a < DARKROOM_ACTIONS; a++)
        f[2 + a] = a == darkroom_action_of(code);
    f[7] = (float)darkroom_reward_of(code);
    f[8] = (float)darkroom_row(next);
    f[9] = (float)darkroom_column(next);
}

#endif
