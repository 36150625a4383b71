/* param_groups.c -- graphs with two parameter groups: the head and the rest of the model.
 *
 * In:    a folder for recipes.
 * Out:   `ok sets/NAME` a case, or `not ok`.
 * Method: every room with its check; the text reads back; what is to stand in it and in what is
 *         emitted; damages that check_graph has to refuse, each in a process of its own. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/graph/graph.h"
#include "gen/lower/lower.h"
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
    Ref dy = build_temp(b, text_print("d%s", y.v->name), b->model.act, y.v->rank, y.v->dim);
    Op *op = build_op(b, OP_ce_bwd);
    op_in(op, y), op_in(op, ref(head)), op_in(op, build_input(b, b->in.labels)), op_in(op, scale);
    op_out(op, rows), op_out(op, dy);
    if (whole)
        op_out(op, ref(gradient_of(b, head)));
    op_int(op, "chunk", head_chunk(b));
    if (whole)
        op_int(op, "trained", 1), op_int(op, "beta", 0);
    loss_sum(b, rows);
    return dy;
}

/* Forward and backward; the head is of a set of its own. */
static Set *micro(Build *b, bool whole)
{
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    loss_inputs(b);
    Set *own = set_add(b, "head");
    b->set = own;
    family_head(b);
    b->set = b->added.sets;
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

/* A copy of a program with values of its own. */
static Program *copy_of(Build *b, const Program *p, const char *name)
{
    Program *q = ir_program(b->g, name, p->role, p->about);
    for (int i = 1; i <= p->nregions; i++)
        ir_region(q, p->region[i].count, p->region[i].reverse);
    for (int i = 0; i < p->nops; i++) {
        const Op *from = &p->ops[i];
        Op *to = ir_op(q, from->kind, from->region, from->loc);
        memcpy(to->attr, from->attr, sizeof to->attr);
        to->nattr = from->nattr;
        for (int k = 0; k < from->nin + from->nout; k++) {
            Ref r = k < from->nin ? from->in[k] : from->out[k - from->nin];
            const char *own = text_print("%s.%s", name, r.v->name);
            if (r.v->kind == VK_TEMP && !ir_value(b->g, own)) {
                Value *v = ir_new(b->g, VK_TEMP, r.v->purpose, r.v->dtype, own, r.v->rank, r.v->dim,
                                  r.v->loc);
                v->count = r.v->count;
            }
            r.v = r.v->kind == VK_TEMP ? ir_value(b->g, own) : r.v;
            k < from->nin ? op_in(to, r) : op_out(to, r);
        }
    }
    return q;
}

/* A schedule in addition to train that makes another gradient of the model, for its norm; later: after the
 * same program, else alone. */
static void measured(Build *b, bool later)
{
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    loss_inputs(b);
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = pass_forward(b, &pass);
    int end = b->p->nops;
    gradient_set(y, losses(b, y, true));
    pass_backward(b, &pass, end);
    Program *micro = b->p;
    schedule_train(b);
    Program *begin = b->g->schedules[b->g->nschedules - 1]->item[1].program,
            *more = copy_of(b, micro, "more");
    Schedule *s = ir_schedule(b->g, "meta", "the norm of another gradient");
    schedule_clear(s, ir_value(b->g, "loss"));
    schedule_run(s, begin, 1);
    if (later)
        schedule_run(s, micro, program_micros(micro));
    schedule_run(s, more, program_micros(more));
    b->p = ir_program(b->g, "measure", ROLE_reduce, "the norm");
    Value *norm = build_persistent(b, "meta_norm", PU_optimiser, DT_F32, 1, dim(1, "1"), dim(0, ""));
    Op *op = build_op(b, OP_grad_norm);
    for (int i = 0; i < b->g->nvalues; i++)
        if (value_is_gradient(b->g->values[i]))
            op_in(op, ref(b->g->values[i]));
    op_out(op, ref(norm));
    schedule_run(s, b->p, 1);
    schedule_result(s, norm);
}

static void measured_alone(Build *b) { measured(b, false); }
static void measured_behind(Build *b) { measured(b, true); }

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

static void planned(Graph *whole)
{
    check_graph(whole);
    fuse_run(whole), check_fuse(whole);
    part_run(whole), check_part(whole);
    plan_run(whole), check_plan(whole);
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
static void adamw_args_of_other(void) { op_of("update", OP_adamw_mixed)->in[1].v = value("adamw_args.head"); }
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

/* True if check_graph refuses the graph with this damage; NULL: without any. */
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

/* How many ops of the kind a program has. */
static int count_of(const char *name, int kind)
{
    const Program *p = program(name);
    int n = 0;
    for (int i = 0; i < p->nops; i++)
        n += p->ops[i].kind == kind;
    return n;
}

/* Two schedules write the gradients of the model: each sum begins after the last write of its own
 * schedule, and where a program is the last of one and not of the other, none does. */
static void try_early(void)
{
    static const struct { const char *name; void (*objective)(Build *b); bool early; } cases[] = {
        {"a sum a schedule", measured_alone, true}, {"no sum in between", measured_behind, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        g = built(cases[i].objective, "measured", GPU);
        planned(g);
        int micro = count_of("micro", OP_allreduce_layer), more = count_of("more", OP_allreduce_layer);
        bool good = cases[i].early ? micro > 3 && more == micro : !micro && !more;
        good = good && count_of("reduce", OP_allreduce_join) == cases[i].early &&
               count_of("measure", OP_allreduce_join) == cases[i].early;
        const char *text = ir_print(g);
        verdict(cases[i].name, good && !strcmp(text, ir_print(ir_parse(text, "plan"))),
                text_print("%d and %d sums begin early", micro, more));
    }
}

static void try_damages(void)
{
    static const struct { const char *name; void (*damage)(void); } damages[] = {
#define D(f) {#f, f}
        D(other_in_norm), D(moved_to_other_norm), D(norm_of_other), D(adamw_args_of_other),
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
    objectives_install();
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
    has("input", text, "input %adamw_args.head  :f32[8] (8)  inputs set head  rep");
    has("norm alone", text, "  $total_norm.head = grad_norm $grad.head  #");
    has("sum alone", text, "  $grad.head = allreduce $grad.head  bucket");
    has("update alone", text,
        "  $head, $m.head, $v.head = adamw $grad.head, %adamw_args.head, $total_norm.head  decay 1");
    has("update, call", calls,
        " adamw(head, m_head, v_head, grad_head, adamw_args_head, total_norm_head,");
    has("clear, call", calls, "void run_begin_head(");
    has("field of the host", emit_io_fields(two), "    float *adamw_args_head;");
    has("result of the host", emit_result_fields(two), "    float *total_norm_head;");
    has("row of the runtime", emit_tensors(two), " .trained = true, .decay = true, .set = \"head\",\n     .init = ");
    verdict("reads back", !strcmp(text, ir_print(ir_parse(text, "plan"))), "another text");

    has("names for the host", emit_set_names(two), "    SET_model,\n    SET_head,\n    SETS\n");
    has("row of the host", emit_sets(two),
        "    {.name = \"head\", .with_step = true,\n"
        "     .adamw_args = &io.adamw_args_head, .norm = &io.total_norm_head},\n");

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
    has("fp16: skipped alone", text, "  $total_norm.head, $scaler.head, %adamw_args.head = scaler_update");
    has("its first write", text, "$grad.head = ce_bwd %e.norm_f, $head, %labels[0], %e.scaled  chunk");
    verdict("apart reads back", !strcmp(text, ir_print(ir_parse(text, "plan"))), "another text");
    has("fp16: row of the host", emit_sets(two),
        "    {.name = \"head\",\n     .adamw_args = &io.adamw_args_head, .norm = &io.total_norm_head, "
        ".scaler = &io.scaler_head},\n");
    try_early();
    try_damages();
    return failed;
}
