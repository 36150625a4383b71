/* ppo_updates.c -- four updates of darkroom_ppo's nets on numbers that tests/oracle/ppo.py has too: norms of the
 * gradient, then probabilities and values of three states, a number a line. Or, of a task: ppo_updates TASK prints its
 * first nets, how far their rows are from orthogonal. */
#include "goal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int fill(float *to, int n, int at, int net)
{
    for (int i = 0; i < n; i++)
        to[i] = (float)(0.15 * sin(0.7 * (at + i) + net));
    return at + n;
}

static void fill_net(Net *net, int k, int outputs)
{
    int at = fill(net->w1[0], INPUTS * HIDDEN, 0, k);
    at = fill(net->b1, HIDDEN, at, k);
    at = fill(net->w2[0], HIDDEN * HIDDEN, at, k);
    at = fill(net->b2, HIDDEN, at, k);
    at = fill(net->w3[0], outputs * HIDDEN, at, k);
    fill(net->b3, outputs, at, k);
}

/* The largest element of rows rows^T - gain^2. */
static double off(Row *row, int n, double gain)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double sum = i == k ? -gain * gain : 0;
            for (int u = 0; u < HIDDEN; u++)
                sum += (double)row[i][u] * row[k][u];
            most = fabs(sum) > most ? fabs(sum) : most;
        }
    return most;
}

static void print_first(Learner *l, int task)
{
    goal_begin(l, 42 + (uint64_t)task);
    Net *net = goal_nets(l);
    printf("%d\n", off(net[POLICY].w1, INPUTS, sqrt(2)) < 1e-5 && off(net[POLICY].w2, HIDDEN, sqrt(2)) < 1e-5 &&
                       off(net[POLICY].w3, OUTPUTS, 0.01) < 1e-7 && off(net[VALUES].w1, INPUTS, sqrt(2)) < 1e-5 &&
                       off(net[VALUES].w2, HIDDEN, sqrt(2)) < 1e-5 && off(net[VALUES].w3, 1, 1) < 1e-5);
}

static void print_updates(Learner *l)
{
    static float p[DARKROOM_STATES][OUTPUTS], value[DARKROOM_STATES];
    goal_begin(l, 1);
    fill_net(&goal_nets(l)[POLICY], 0, OUTPUTS);
    fill_net(&goal_nets(l)[VALUES], 1, 1);
    goal_changed(l);
    for (int j = 0; j < 4; j++) {
        Sample sample[MINIBATCH];
        const Sample *list[MINIBATCH];
        for (int i = 0; i < MINIBATCH; i++) {
            sample[i] = (Sample){.state = (i * i + 5 * j) % 31, .action = (3 * i + j) % 5,
                                 .p = (float)(0.1 + 0.02 * (7 * i % 20)), .advantage = (float)(2 * sin(i + 0.5 * j)),
                                 .value = (float)cos(0.3 * i)};
            list[i] = &sample[i];
        }
        printf("%.8g\n", goal_update(l, list));
    }
    goal_outputs(l, p, value);
    for (int state = 0; state <= 80; state += 40) {
        for (int a = 0; a < OUTPUTS; a++)
            printf("%.8g\n", p[state][a]);
        printf("%.8g\n", value[state]);
    }
}

int main(int argc, char **argv)
{
    Learner *l = goal_learner();
    if (argc > 1)
        print_first(l, atoi(argv[1]));
    else
        print_updates(l);
    goal_free(l);
    return 0;
}
