/* sets.c -- graphs with two sets of parameters: the head beside the rest of the model.
 *
 * In:    a folder for recipes.
 * Out:   `ok sets/NAME` a case, or `not ok`.
 * Method: every room with its check; the text reads back; what is to stand in it and in what is
 *         emitted; damages that check_graph has to refuse, each in a process of its own. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/graph/graph.h"
#include "tests/rooms/find.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The losses of y over the head, their gradient to y, and where `whole` to the head. */
static Ref losses(Build *b, Ref y, bool whole)
{
    Value *head = family_head(b);
    Ref rows = loss_rows(b, y), scale = loss_scale(b);
    Ref dy = build_temp(b, text_print("d%s", y.v->name), b->act, y.v->rank, y.v->dim);
    Op *op = build_op(b, whole ? OP_ce_bwd : OP_ce_dx);
    op_in(op, y), op_in(op, ref(head)), op_in(op, build_input(b, b->labels)), op_in(op, scale);
    op_out(op, rows), op_out(op, dy);
    if (whole)
        op_out(op, ref(gradient_of(b, head)));
    op_int(op, "chunk", head_chunk(b));
    if (whole)
        op_int(op, "beta", 0);
    loss_sum(b, rows);
    return dy;
}

/* Forward and backward; the head is of a set of its own. */
static Set *micro(Build *b, bool whole)
{
    b->tokens = input_new(b, "tokens");
    head_labels(b);
    loss_inputs(b);
    Set *own = set_add(b, "head");
    b->set = own;
    family_head(b);
    b->set = b->sets;
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = pass_forward(b, &pass);
    int end = b->p->nops;
    Ref dy = losses(b, y, whole);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
    return own;
}

/* One loss for both sets: one schedule. */
static void together(Build *b)
{
    micro(b, true);
    schedule_train(b);
}

/* A loss each: what the host calls when it wants to; the head learns from one micro-batch. */
static void apart(Build *b)
{
    Set *own = micro(b, false);
    schedule_train(b);
    b->mode = MODE_EVAL;
    b->set = own;
    b->p = ir_program(b->g, "head_micro", ROLE_gradients, "the head alone");
    Pass pass = pass_only(b, "e.x");
    losses(b, pass_forward(b, &pass), true);
    schedule_update(b, "head", "an update of the head");
}

static const char *folder;

static Graph *built(void (*objective)(Build *b), const char *name, const char *words)
{
    const char *file = text_print("%s/%s.lua", folder, name);
    const char *recipe = text_print("return { seq = { max = 8 }, %s, layers = 2, hidden = 64, "
                                    "heads = 2, ffn = 64, vocab = 64, tied = false } }\n", words);
    file_write_if_changed(file, recipe, strlen(recipe), false);
    Config *c = config_fill(recipe_load(file, NULL, 0), file);
    check_config(c);
    return graph_of(c, objective);
}

static void planned(Graph *g)
{
    check_graph(g);
    fuse_run(g), check_fuse(g);
    part_run(g), check_part(g);
    plan_run(g), check_plan(g);
}

static int failed;

static void verdict(const char *name, bool ok, const char *why)
{
    printf(ok ? "ok sets/%s\n" : "not ok sets/%s: %s\n", name, why);
    failed |= !ok;
}

static void has(const char *name, const char *text, const char *line)
{
    verdict(name, strstr(text, line), text_print("no \"%s\"", line));
}

/* ---- damages ---------------------------------------------------------------------------------- */

static void other_in_norm(void) { op_in(op_of("reduce_head", OP_grad_norm), ref(value("grad.wte"))); }
static void moved_to_other_norm(void)
{
    op_of("reduce", OP_grad_norm)->in[0].v = value("grad.head");
}
static void norm_of_other(void) { op_of("update_head", OP_adamw_mixed)->in[2].v = value("total_norm"); }
static void hyper_of_other(void) { op_of("update", OP_adamw_mixed)->in[1].v = value("hyper.head"); }
static void not_in_norm(void) { op_of("reduce", OP_grad_norm)->nin--; }
static void not_updated(void) { program("update_head")->nops--; }
static void updated_twice(void)
{
    *ir_op(program("update_head"), OP_adamw_mixed, 0, (Loc){0}) = *op_of("update", OP_adamw_mixed);
}
static void parameter_of_other(void) { value("wte")->set = "head"; }
static void gradient_of_other(void) { value("grad.wte")->set = "head"; }
static void moment_of_other(void) { value("m.wte")->set = "head"; }
static void scale_of_other(void) { op_of("micro", OP_scale_loss)->in[1].v = value("scaler.head"); }
static void scale_updated_by_other(void)
{
    op_of("reduce_head", OP_scaler_update)->out[1].v = value("scaler");
}

/* Whether check_graph refuses the graph with this damage, NULL: without any. */
static const char *refused(void (*objective)(Build *b), const char *words, void (*damage)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        g = built(objective, "damaged", words);
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        if (damage)
            damage();
        check_graph(g);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return "no process";
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGABRT ? "refused" : strsignal(WTERMSIG(status));
    return WEXITSTATUS(status) ? "nothing to damage" : "passes";
}

#define CPU "target = 'cpu', gpus = 2, batch = { micro = 2, accum = 3 }, model = { family = 'gpt2'"
#define GPU "target = 'sm_90', precision = 'fp16', gpus = 2, comm = { overlap = 'all' }, " \
            "batch = { micro = 2, accum = 2 }, model = { family = 'llama'"

/* What emit_run() says of the graph. */
static const char *emitted(const Graph *two)
{
    static char said[512];
    int ends[2], status;
    fflush(stdout);
    if (pipe(ends))
        return "no pipe";
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        emit_run(two, text_print("%s/emitted", folder), false, false);
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? said : "it is written";
}

static void try_damages(void)
{
    static const struct { const char *name; void (*damage)(void); } damages[] = {
#define D(f) {#f, f}
        D(other_in_norm), D(moved_to_other_norm), D(norm_of_other), D(hyper_of_other),
        D(not_in_norm), D(not_updated), D(updated_twice), D(parameter_of_other),
        D(gradient_of_other), D(moment_of_other), D(scale_of_other), D(scale_updated_by_other),
#undef D
    };
    const char *said = refused(apart, GPU, NULL);
    verdict("sound", !strcmp(said, "passes"), said);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        said = refused(apart, GPU, damages[i].damage);
        verdict(damages[i].name, !strcmp(said, "refused"), said);
    }
    said = refused(together, GPU, NULL);
    verdict("two loss scales on one loss", !strcmp(said, "refused"), said);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    folder = argv[1];
    Graph *two = built(together, "together", CPU);
    planned(two);
    const char *text = ir_print(two), *calls = emit_programs(two);
    has("one loss, two updates", text,
        "schedule train   clear $loss, begin, begin_head, micro * 3, reduce, update, reduce_head, "
        "update_head  -> $loss, $total_norm, $total_norm.head  \"");
    has("parameter", text, "param $head  :f32[64,64] (V,C)  weights set head trained decay");
    has("moment", text, "state $m.head  :f32[64,64] (V,C)  optimiser of head set head  rep");
    has("the other set is not named", text, "  weights trained decay  init normal");
    has("input", text, "input %hyper.head  :f32[8] (8)  inputs set head  rep");
    has("norm alone", text, "  $total_norm.head = grad_norm $grad.head  #");
    has("sum alone", text, "  $grad.head = allreduce $grad.head  bucket");
    has("update alone", text,
        "  $head, $m.head, $v.head = adamw $grad.head, %hyper.head, $total_norm.head  decay 1");
    has("update, call", calls,
        "adamw(head, m_head, v_head, grad_head, hyper_head, total_norm_head, SPAN(head, head), 1);");
    has("clear, call", calls, "void run_begin_head(");
    has("field of the host", emit_io_fields(two), "    float *hyper_head;");
    has("result of the host", emit_result_fields(two), "    float *total_norm_head;");
    has("row of the runtime", emit_tensors(two), ".set = \"head\",\n     .weight = head,");
    verdict("reads back", !strcmp(text, ir_print(ir_parse(text, "plan"))), "another text");

    has("no program is written yet", emitted(two), "head is of the set head: programs train one set");

    /* one program with the updates of both: a call a set, however alike */
    Graph *one = built(together, "one", "optim = { decay_rule = 'all' }, " CPU);
    g = one;
    Program *update = program("update");
    const Op *last = op_of("update_head", OP_adamw);
    *ir_op(update, OP_adamw, 0, last->loc) = *last;
    fuse_run(one);
    verdict("a call a set", update->groups[update->ngroups - 1].nops == 1, "one call for two sets");

    two = built(apart, "apart", GPU);
    planned(two);
    text = ir_print(two);
    has("a schedule each", text, "schedule train   clear $loss, begin, micro * 2, reduce, update  ->");
    has("a schedule each, another", text,
        "schedule head    clear $loss, head_micro, reduce_head, update_head  -> $loss, "
        "$total_norm.head  captured  \"an update of the head\"");
    has("fp16: a scale each", text, "  %e.scaled = scale_loss %scale.head, $scaler.head");
    has("fp16: skipped alone", text, "  $total_norm.head, $scaler.head, %hyper.head = scaler_update");
    has("its first write", text, "$grad.head = ce_bwd %e.norm_f, $head, %labels[0], %e.scaled  chunk");
    verdict("apart reads back", !strcmp(text, ir_print(ir_parse(text, "plan"))), "another text");
    try_damages();
    return failed;
}
