/* act.c -- the program `act` of an emitted folder by itself: logits of queries against PyTorch's, and what they do not
 * depend on: where their sequence stands, what is next to it and after its query.
 *
 * In:    the command line: a folder of weights, a file with "tokens" and "logits" of as many sequences as rows at most.
 * Out:   `ok NAME` or `not ok NAME: why` a line; exit status 1 when any failed. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/darkroom.h"
#include "runtime/files/json.h"
#include "runtime/model/hf.h"
#include "shape.h"
#include "step.h"

enum { CHOICES = DARKROOM_ACTIONS + 3 };

static int failed;

static void verdict(bool good, const char *name)
{
    printf(good ? "ok %s\n" : "not ok %s: it is not so\n", name);
    failed |= !good;
}

/* Sequence `from` of the file into a row; after its query stands any token, at any position. */
static void lay(const cJSON *tokens, int from, int row, int behind)
{
    const cJSON *t = cJSON_GetArrayItem(tokens, from);
    const int n = cJSON_GetArraySize(t);
    for (int i = 0; i < TA; i++) {
        io.act_tokens[row * TA + i] = i < n ? cJSON_GetArrayItem(t, i)->valueint
                                            : (behind * (i + 7)) % DARKROOM_CODES;
        io.act_positions[row * TA + i] = i < n ? i : behind * i % TA;
    }
    io.act_rows[row] = row * TA + n - 1;
}

static void run(float *to)
{
    step_act();
    step_wait();
    memcpy(to, io.logits, sizeof(float) * EVAL * CHOICES);
}

int main(int argc, char **argv)
{
    static float first[EVAL * CHOICES], second[EVAL * CHOICES];
    size_t n;
    char *error, *text = argc == 3 ? file_read(argv[2], 1 << 24, &n, &error) : NULL;
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    if (!json) {
        puts("not ok act: want a folder of weights and a file of sequences");
        return 2;
    }
    const cJSON *tokens = json_get(json, "tokens"), *logits = json_get(json, "logits");
    const int rows = cJSON_GetArraySize(tokens);
    step_open();
    model_init(&model, 1);
    hf_load(&model, argv[1], false);
    for (int r = 0; r < EVAL; r++)
        lay(tokens, r % rows, r, 0);
    run(first);
    double worst = 0;
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < CHOICES; k++) {
            const double want = cJSON_GetArrayItem(cJSON_GetArrayItem(logits, r), k)->valuedouble;
            worst = fmax(worst, fabs(first[r * CHOICES + k] - want));
        }
    /* of numbers up to 3, in fp32 */
    verdict(rows > 1 && rows <= EVAL && worst < 1e-5, "act: logits of queries");
    /* the other way round, with other tokens behind */
    for (int r = 0; r < EVAL; r++)
        lay(tokens, r < rows ? rows - 1 - r : 0, r, 13);
    run(second);
    bool same = true;
    for (int r = 0; r < rows; r++)
        same &= !memcmp(first + r * CHOICES, second + (rows - 1 - r) * CHOICES,
                        sizeof(float) * CHOICES);
    verdict(same, "act: neither place, neighbours nor what is after a query matter");
    return failed;
}
