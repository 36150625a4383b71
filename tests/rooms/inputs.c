/* inputs.c -- a graph that reads floats: an objective of the tests whose rows are no tokens.
 *
 * In:    a folder for the recipes.
 * Out:   `ok inputs/NAME` a case, or `not ok`.
 * Method: every room with its check; the text reads back; what is to stand in it, and what not. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/graph/graph.h"
#include "gen/lower/lower.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* lm's loss on rows of floats: embedding, blocks, head and one pass back. */
static void floats(Build *b)
{
    size_add(b, "X", 5, "values of a place");
    b->in.features = input_new(b, "readings");
    b->added.features_path = "sensor.proj";
    head_labels(b);
    loss_inputs(b);
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = pass_forward(b, &pass);
    Ref dy = build_temp(b, text_print("d%s", y.v->name), b->model.act, y.v->rank, y.v->dim);
    int end = b->p->nops;
    Value *head = family_head(b);
    Ref losses = loss_rows(b, y), scale = loss_scale(b);
    Op *op = build_op(b, OP_ce_bwd);
    op_in(op, y), op_in(op, ref(head)), op_in(op, build_input(b, b->in.labels)), op_in(op, scale);
    op_out(op, losses), op_out(op, dy), op_out(op, ref(gradient_of(b, head)));
    op_int(op, "chunk", head_chunk(b)), op_int(op, "trained", 1), op_int(op, "beta", 0);
    loss_sum(b, losses);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
    schedule_train(b);
}

static Config *config;           /* of the last graph */

/* The recipe with these words in it, as a graph after every room. */
static Graph *planned(const char *folder, const char *name, const char *words)
{
    const char *file = text_print("%s/%s.lua", folder, name);
    const char *recipe = text_print(
        "return { seq = { max = 6 }, %s }\n", words);
    file_write_if_changed(file, recipe, strlen(recipe), false);
    config = config_fill(recipe_load(file, NULL, 0), file);
    check_config(config);
    Graph *g = graph_of(config, floats);
    check_graph(g);
    fuse_run(g), check_fuse(g);
    part_run(g), check_part(g);
    plan_run(g), check_plan(g);
    return g;
}

static int failed;

static void verdict(const char *name, bool ok, const char *why)
{
    printf(ok ? "ok inputs/%s\n" : "not ok inputs/%s: %s\n", name, why);
    failed |= !ok;
}

static void has(const char *name, const char *text, const char *line)
{
    verdict(name, strstr(text, line), text_print("no \"%s\" in the plan", line));
}

static void lacks(const char *name, const char *text, const char *line)
{
    const char *at = strstr(text, line);
    verdict(name, !at, text_print("the plan has \"%.80s\"", at ? at : ""));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    objectives_install();
    const Graph *g = planned(argv[1], "rope",
        "target = 'cpu', gpus = 2, batch = { micro = 2, accum = 3 }, model = { family = 'llama',\n"
        "layers = 2, hidden = 24, heads = 2, ffn = 40, vocab = 31 }");
    Config *accumulated = config;
    const char *text = ir_print(g);
    has("a float of each micro-batch", text, "input %readings  x3 slots 3  :f32[2,6,5] (B,T,X)  inputs  shard 0");
    has("first rows", text, "  %x[0] = linear_bias %readings[m], $embed.w, $embed.b");
    has("weights in files", text, "hf \"sensor.proj.weight\" rows 0 24");
    has("gradient", text, "  $grad.embed.w = linear_dw %dx[0], %readings[m]  beta 1");
    has("gradient, placed", text, "state $grad.embed.w  :f32[24,5] (C,X)  gradients of embed.w  partial");
    lacks("no gradient of an input", text, "dreadings");
    lacks("no table of tokens", text, "wte");
    verdict("reads back", !strcmp(text, ir_print(ir_parse(text, "plan"))), "another text");

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ir_value(g, "readings")->name = "rumours";
        if (freopen("/dev/null", "w", stderr))
            emit_io_fields(g);
        _exit(0);
    }
    int status;
    verdict("no row, no program",
            child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1,
            "emitted with an input that no host writes");

    text = ir_print(planned(argv[1], "positions",
        "target = 'sm_90', precision = 'bf16', batch = { micro = 2 }, model = { family = 'gpt2',\n"
        "layers = 2, hidden = 64, heads = 2, vocab = 31, tied = false }"));
    has("16 bit", text, "  %features.act = cast %readings");
    has("16 bit, weights", text, "  %embed = linear_bias %features.act, $embed.w, $embed.b");
    has("table of places", text, "  %x[0] = add_pos %embed, $wpe");
    has("its gradient", text, "  $grad.wpe = pos_bwd %dx[0]  beta 0");
    has("gradient of rounded rows", text, "  $grad.embed.w = linear_dw %dx[0], %features.act  beta 0");
    lacks("no gradient of rounded rows", text, "dfeatures");

    Build b = {.g = arena_new(sizeof *b.g), .c = accumulated, .model.act = DT_F32};
    b.g->ranks = 4;
    size_add(&b, "B", 2, ""), size_add(&b, "T", 6, ""), size_add(&b, "X", 5, "");
    const Value *once = input_new(&b, "gains"), *many = input_new(&b, "cells");
    verdict("one for a step", !once->count && once->rank == 1 && once->place == PL_REP, "another value");
    verdict("any rank", many->count == 3 && many->rank == 5 && many->dim[3].n == 3 && many->dim[4].n == 5 &&
            many->place == PL_SHARD, "another value");
    return failed;
}
