/* damage.c -- graphs that were made by the rooms and then damaged: every check has to abort.
 *
 * In:    recipes with accumulation, recomputation and two ranks, with adapters, with sums during the backward pass,
 *        with sums in canonical order, with updates inside the backward pass, with moments in 8 bit, with a base in
 *        NF4 and with divided weights that are gathered ahead.
 * Out:   `ok check/NAME` a damage, `ok text/NAME` a mistake in a graph's text, or `not ok`.
 * Method: each damage is done in a process of its own; bug() ends it with SIGABRT. */
#define _GNU_SOURCE
#include "gen/graph/objectives.h"
#include "gen/lower/lower.h"
#include "tests/rooms/find.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { RECIPES = 8 };
static const char *const recipe[RECIPES] = {
    "return { target = 'cpu', gpus = 2, model = { family = 'llama', layers = 4, hidden = 24, heads = 2,\n"
    "  kv_heads = 1, head_dim = 12, ffn = 40, vocab = 31 }, seq = { max = 6 },\n"
    "  batch = { micro = 2, accum = 3 }, memory = { recompute = 'block' } }\n",
    "return { target = 'cpu', precision = 'bf16', model = { family = 'gpt2', layers = 4, hidden = 24,\n"
    "  heads = 2, vocab = 31 }, seq = { max = 6 }, batch = { micro = 2 },\n"
    "  lora = { rank = 2, targets = { 'all-linear' }, dropout = 0.5 } }\n",
    "return { target = 'sm_90', gpus = 2, precision = 'fp16', model = { family = 'llama', layers = 4, hidden = 64,\n"
    "  heads = 4, ffn = 64, vocab = 257 }, seq = { max = 32 }, batch = { micro = 2, accum = 2 },\n"
    "  comm = { overlap = 'all' },\n"
    "  lora = { rank = 8, targets = { 'all-linear' }, modules_to_save = { 'lm_head' }, dropout = 0.5 } }\n",
    "return { target = 'cpu', gpus = 2, model = { family = 'gpt2', layers = 4, hidden = 64, heads = 2,\n"
    "  ffn = 1024, vocab = 1100, tied = true }, seq = { max = 32 }, batch = { micro = 2, accum = 2 },\n"
    "  comm = { order = 'canonical' } }\n",
    "return { target = 'cpu', gpus = 2, model = { family = 'gpt2', layers = 4, hidden = 64, heads = 2,\n"
    "  vocab = 1100, tied = true }, seq = { max = 32 }, batch = { micro = 2 },\n"
    "  memory = { recompute = 'block' }, optim = { when = 'backward' }, run = { clip = 0 } }\n",
    "return { target = 'cpu', gpus = 2, model = { family = 'gpt2', layers = 4, hidden = 64, heads = 2,\n"
    "  ffn = 1024, vocab = 31 }, seq = { max = 32 }, batch = { micro = 2 },\n"
    "  memory = { zero = 1 }, optim = { moments = '8bit' } }\n",
    "return { target = 'cpu', model = { family = 'llama', layers = 4, hidden = 64, heads = 2, kv_heads = 1,\n"
    "  head_dim = 32, ffn = 64, vocab = 31 }, seq = { max = 6 }, batch = { micro = 2 },\n"
    "  lora = { rank = 2, base = 'nf4' } }\n",
    "return { target = 'sm_90', gpus = 2, model = { family = 'llama', layers = 4, hidden = 64, heads = 2,\n"
    "  kv_heads = 1, head_dim = 32, ffn = 512, vocab = 1100, tied = true }, seq = { max = 32 },\n"
    "  batch = { micro = 2, accum = 2 },\n"
    "  memory = { zero = 3 }, comm = { overlap = 'all' } }\n",
};

static const char *file[RECIPES], *scratch;

static void drop(Op *op)
{
    for (int i = 0; i < g->nprograms; i++) {
        Program *p = g->programs[i];
        if (op < p->ops || op >= p->ops + p->nops)
            continue;
        memmove(op, op + 1, sizeof *op * (size_t)(p->ops + p->nops - op - 1));
        p->nops--;
    }
}

static void swap(Op *a, Op *b)
{
    Op t = *a;
    *a = *b;
    *b = t;
}

/* A stored temporary of several layers, and another value that is alive with it. */
static Value *layered(void)
{
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->kind == VK_TEMP && g->values[i]->slots == 4 && !g->values[i]->internal)
            return g->values[i];
    return found(NULL);
}

/* ---- after graph -------------------------------------------------------------------------------- */

static void operand_missing(void) { op_of("micro", OP_linear)->nin--; }
static void operand_added(void) { op_in(op_of("micro", OP_add), ref(value("tokens"))); }
static void shape_wrong(void) { value("b.o.w")->dim[1].n++; }
static void shape_of_result(void) { value("b.qkv")->dim[2].n -= 12; }
static void rank_wrong(void) { value("b.qkv.w")->rank = 1; }
static void dtype_wrong(void) { value("b.norm1.rstd")->dtype = DT_F64; }
static void dtype_mixed(void) { value("b.up")->dtype = DT_F32; }
static void attribute_missing(void) { op_of("micro", OP_attention)->nattr--; }
static void attribute_unknown(void) { op_int(op_of("micro", OP_swiglu), "heads", 2); }
static void attribute_twice(void) { op_int(op_of("micro", OP_attention), "heads", 2); }
static void attribute_kind(void) { op_of("micro", OP_ce_bwd)->attr[1].i = 2; }
static void attribute_type(void) { op_of("micro", OP_rmsnorm)->attr[0].type = ATTR_INT; }
static void heads_wrong(void) { op_of("micro", OP_attention)->attr[0].i = 3; }
static void region_beyond(void) { op_of("micro", OP_linear)->region = 3; }
static void region_negative(void) { op_of("micro", OP_linear)->region = -1; }
static void index_outside(void) { op_of("micro", OP_linear)->region = 0; }
static void index_beyond(void) { op_of("micro", OP_linear)->in[1].k = 1; }
static void index_before(void) { op_of("micro", OP_linear)->in[1].k = -1; }
static void constant_beyond(void) { op_of("micro", OP_embed)->out[0].k = 5; }
static void use_before_definition(void) { swap(op_of("micro", OP_attention), op_of("micro", OP_linear)); }
static void never_defined(void) { drop(op_of("eval", OP_swiglu)); }
static void two_definitions(void) { op_of("micro", OP_swiglu)->out[0].v = op_of("micro", OP_attention)->out[0].v; }
static void two_definitions_straight(void) { op_of("eval", OP_loss_sum)->out[0].v = op_of("eval", OP_ce)->out[0].v; }
static void no_elements(void) { value("loss")->dim[0].n = 0; }
static void no_gradient(void) { value("grad.wte")->name = "other"; }
static void gradient_never_written(void) { drop(op_of("micro", OP_embed_bwd)); }
static void gradient_overwritten(void) { ((Attr *)(uintptr_t)op_attr(op_of("micro", OP_linear_dw), "beta"))->i = 0; }
static void gradient_not_cleared(void) { op_of("begin", OP_zero)->nout--; }
static void gradient_not_in_norm(void) { op_of("reduce", OP_grad_norm)->nin--; }
static void no_update(void) { drop(op_of("update", OP_adamw)); }
static void two_updates(void) { *ir_op(program("update"), OP_adamw, 0, (Loc){0}) = *op_of("update", OP_adamw); }
static void wrong_update(void) { op_of("update", OP_adamw)->in[0].v = value("grad.head"); }
static void frozen_updated(void) { value("b.o.w")->trained = false; }
static void rows_apart(void) { value("b.qkv.w")->piece[1].row0++; }
static void rows_missing(void) { value("b.qkv.w")->npieces--; }

static Schedule *schedule(const char *name)
{
    for (int i = 0; i < g->nschedules; i++)
        if (!strcmp(g->schedules[i]->name, name))
            return g->schedules[i];
    return found(NULL);
}
/* train: clear $loss, begin, micro * 3, reduce, update */
static void item_swap(int a, int b)
{
    Item *item = schedule("train")->item, t = item[a];
    item[a] = item[b];
    item[b] = t;
}
static void program_unused(void) { schedule("eval")->nitems--; }
static void clear_late(void) { item_swap(1, 2); }
static void reduce_early(void) { item_swap(2, 3); }
static void update_early(void) { item_swap(3, 4); }
static void micro_once(void) { schedule("train")->item[2].times = 1; }
static void micro_often(void) { schedule("train")->item[2].times++; }
static void eval_often(void) { schedule("eval")->item[1].times = 2; }
static void result_not_written(void) { schedule_result(schedule("decode"), value("loss")); }
static void role_wrong(void) { program("reduce")->role = ROLE_forward; }
static void tables_in_step(void) { schedule_run(schedule("train"), program("init"), 1); }

/* ---- after fuse --------------------------------------------------------------------------------- */

static void group_missing(void) { program("micro")->ngroups--; }
static void group_empty(void) { program("micro")->groups[1].nops = 0; }
static void group_late(void) { program("micro")->groups[1].first_op++; }
static void group_wrong_kernel(void) { program("micro")->groups[1].kernel = program("micro")->groups[2].kernel; }
static void op_outside_group(void) { op_of("micro", OP_attention)->group--; }
static void group_other_region(void) { program("micro")->groups[2].region = 2; }
static void group_small_workspace(void) { program("micro")->groups[2].workspace -= 64; }

/* ---- after part --------------------------------------------------------------------------------- */

static void no_placement(void) { value("tokens")->place = PL_NONE; }
static void gradient_whole(void) { value("grad.head")->place = PL_REP; }
static void norm_before_sum(void) { swap(op_of("reduce", OP_allreduce), op_of("reduce", OP_grad_norm)); }
static void no_sum(void) { drop(op_of("reduce", OP_allreduce)); }
static void gradient_not_summed(void) { op_of("reduce", OP_allreduce)->nout--; }
static void summed_twice(void) { *op_of("reduce", OP_grad_norm) = *op_of("reduce", OP_allreduce); }
static void summed_each_micro(void) { op_of("micro", OP_allreduce_layer)->nattr = 0; }
static void sum_not_begun(void) { drop(op_of("micro", OP_allreduce_layer)); }
static void sum_not_joined(void) { drop(op_of("reduce", OP_allreduce_join)); }
static void sum_before_write(void)
{
    Op *op = op_of("micro", OP_allreduce_layer);
    swap(op, op - 1);
}
static void other_axis(void) { value("b.qkv")->axis = 1; }
static void each_rank_all_samples(void) { value("tokens")->place = value("labels")->place = PL_REP; }
static void update_of_divided(void) { op_of("update", OP_adamw)->in[0].v = value("x"); }

/* ---- after plan --------------------------------------------------------------------------------- */

static void unaligned(void) { value("b.o.w")->offset += 4; }
static void negative(void) { value("b.o.w")->offset = -64; }
static void outside_arena(void) { value("b.o.w")->offset = g->arena_bytes; }
static void arena_small(void) { g->arena_bytes -= 64; }
static void over_parameter(void) { layered()->offset = value("b.o.w")->offset; }
static void moment_on_moment(void) { value("v.b.o.w")->offset = value("m.b.o.w")->offset; }
static void on_temporary(void) { value("b.att")->offset = value("b.qkv")->offset; }
static void on_input(void) { value("labels")->offset = value("tokens")->offset; }
static void workspace_on_operand(void)
{
    const Op *op = op_of("micro", OP_linear);
    program("micro")->groups[op->group].ws->offset = op->out[0].v->offset;
}
static void adapter_workspace(void)
{
    const Op *op = op_of("micro", OP_lora);
    program("micro")->groups[op->group].ws->offset = op->out[1].v->offset;
}
static void workspace_lost(void) { program("micro")->groups[op_of("micro", OP_linear)->group].ws = NULL; }
static void slot_small(void) { value("b.o.w")->stride /= 2; }
static void slots_few(void)
{
    Value *v = layered();
    v->slots = 1;
}
static void born_late(void) { value("b.att")->first++; }
static void dead_early(void) { layered()->last--; }
static void state_dead(void) { value("m.b.o.w")->last = 3; }
static void cache_dead(void) { value("keys")->last--; }
static void moments_apart(void)
{
    value("m.b.o.w")->offset = g->arena_bytes;
    g->arena_bytes += value("m.b.o.w")->slots * value("m.b.o.w")->stride;
}
static void two_rules_one_update(void) { program("update")->ops[1].attr[0].i ^= 1; }
static void gradients_apart(void)
{
    for (int i = g->nvalues - 1; i >= 0; i--)
        if (g->values[i]->purpose == PU_gradients) {
            g->values[i]->offset = g->arena_bytes;
            g->arena_bytes += g->values[i]->slots * g->values[i]->stride;
            return;
        }
}

/* ---- in canonical order ------------------------------------------------------------------------- */

/* A micro-batch's gradient that all ranks have is added once a rank. */
static void folded_whole(void) { value("micro.grad.wte")->place = PL_REP; }
static void not_folded(void) { drop(op_of("micro", OP_fold)); }
static void folded_anew(void)
{
    Op *op = op_of("micro", OP_fold);
    for (int i = 0; i < op->nattr; i++)
        if (!strcmp(op->attr[i].key, "beta"))
            op->attr[i].i = 0;
}
/* The sum of a micro-batch is of all of them. */
static void summed_over_micros(void) { op_of("micro", OP_loss_sum)->out[0] = ref(value("loss")); }
/* The tied embedding's second gradient overwrites the first. */
static void micro_overwritten(void)
{
    Program *p = program("micro");
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nattr; k++)
            if (p->ops[i].kind == OP_embed_bwd && !strcmp(p->ops[i].attr[k].key, "beta"))
                p->ops[i].attr[k].i = 0;
}

/* ---- updates inside the backward pass ----------------------------------------------------------- */

/* Of the first updated matrix: dx is computed from its new values. */
static void read_after_update(void)
{
    Op *update = op_of("micro", OP_adamw), *read = update;
    while (read->kind != OP_linear_dx || read->in[1].v != update->out[0].v)
        read--;
    swap(read, update);
}
/* The tied embedding is updated after its first gradient, that of the head. */
static void updated_half_way(void)
{
    Program *p = program("micro");
    Op *head = op_of("micro", OP_ce_bwd), *update = found(p->nops ? &p->ops[p->nops - 1] : NULL), keep[2];
    while (update->kind != OP_adamw || update->out[0].v != value("wte"))
        update--;
    memcpy(keep, update - 1, sizeof keep);
    memmove(head + 3, head + 1, sizeof *head * (size_t)(update - head - 2));
    memcpy(head + 1, keep, sizeof keep);
}
static void read_later_in_the_step(void)
{
    for (int i = 0; i < g->nschedules; i++)
        if (!strcmp(g->schedules[i]->name, "train"))
            schedule_run(g->schedules[i], program("eval"), 1);
}
static void updated_twice(void)
{
    Op *update = op_of("micro", OP_adamw);
    update[-1] = *update;
}
static void squares_not_cleared(void)
{
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->schedules[i]->nitems; k++)
            if (g->schedules[i]->item[k].clears == value("squares"))
                g->schedules[i]->item[k].clears = value("loss");
}
static void updated_by_a_rank(void) { drop(op_of("micro", OP_allreduce)); }
static void read_from_slot(void)
{
    Op *read = op_of("micro", OP_partial_norm);
    while (read->kind != OP_linear_dw)
        read--;
    do
        swap(read, read + 1);
    while (read++->kind != OP_adamw);
}

/* ---- moments in 8 bit --------------------------------------------------------------------------- */

static void blocks_few(void) { value("absmax.m.b.up.w")->dim[1] = (Dim){128, "128"}; }
static void blocks_of_fewer_tensors(void) { value("absmax.v.b.up.w")->dim[0] = (Dim){2, "2"}; }
static void magnitudes_whole(void) { value("absmax.m.b.up.w")->part = 0; }
static void magnitudes_more(void) { value("absmax.v.b.up.w")->part *= 2; }
static void moment_of_other_type(void) { value("m.b.up.w")->dtype = DT_F32; }

/* ---- bases in NF4 ------------------------------------------------------------------------------- */

static void blocks_of_another(void) { op_of("micro", OP_dequant)->in[3].v = value("nested.b.qkv.w"); }
static void tensors_swapped(void)
{
    Attr *a = op_of("micro", OP_dequant)->attr;      /* parts, w0, w1 */
    a[1].i -= 32;
    a[2].i += 32;
}
static void group_lost(void) { value("nested.b.qkv.w")->dim[0] = (Dim){2, "2"}; }
static void base_trained(void) { value("b.o.w")->trained = true; }
static void codes_short(void) { value("b.o.w")->dim[1] = (Dim){31, "31"}; }
static void pinned_elsewhere(void) { value("b.o.w")->pinned = true; }
static void absmax_short(void) { value("absmax.b.o.w")->dim[0] = (Dim){63, "63"}; }

/* ---- divided weights and gradients -------------------------------------------------------------- */

/* The last op of that kind in the program. */
static Op *last_of(const char *in, int kind)
{
    Program *p = program(in);
    for (int i = p->nops - 1; i >= 0; i--)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    return found(NULL);
}

/* The first op of that kind that has an attribute `if`. */
static Op *conditional(const char *in, int kind)
{
    Program *p = program(in);
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == kind && op_attr(&p->ops[i], "if"))
            return &p->ops[i];
    return found(NULL);
}

static void summed_in_one_slot(void) { value("micro.grad.b.gate_up.w")->slots = 1; }
static void gathered_in_one_slot(void) { value("micro.full.b.gate_up.w")->slots = 1; }
static void summed_unfinished(void) { drop(op_of("micro", OP_scatter_end)); }
static void summed_unfinished_last(void) { drop(last_of("micro", OP_scatter_end)); }
static void gathered_unfinished(void) { drop(op_of("micro", OP_gather_end)); }
static void gathered_unfinished_backward(void) { drop(last_of("micro", OP_gather_end)); }
static void gathered_unfinished_eval(void) { drop(op_of("eval", OP_gather_end)); }
static void gathered_for_nobody(void)
{
    Program *p = program("micro");
    Op *begin = op_of("micro", OP_gather_begin);
    *ir_op(p, begin->kind, 0, begin->loc) = *begin;
}
static void sum_for_nobody(void)
{
    Program *p = program("micro");
    for (int i = p->nops - 1; i >= 0; i--)
        if (p->ops[i].kind == OP_scatter_end || p->ops[i].in[0].v == value("micro.grad.b.gate_up.w"))
            if (!p->ops[i].region)
                drop(&p->ops[i]);
}
static void not_begun(void) { drop(op_of("micro", OP_gather_begin)); }
static void not_begun_ahead(void) { drop(conditional("micro", OP_gather_begin)); }
static void sum_of_layer_not_begun(void) { drop(op_of("micro", OP_scatter_begin)); }
static void kept_gathered_again(void) { last_of("micro", OP_gather_end)->nattr = 0; }
static void read_in_first_turn(void) { op_word(op_of("micro", OP_gather_end), "if", "later"); }
static void parts_read(void)
{
    Op *op = op_of("micro", OP_gather_end) + 1;      /* the product that reads full.X */
    op->in[1].v = value("b.gate_up.w");
}
static void divided_weight_whole(void) { value("wte")->place = PL_REP; }
static void condition_outside(void) { op_word(op_of("micro", OP_gather_begin), "if", "inside"); }
static void condition_missing(void) { conditional("micro", OP_gather_begin)->nattr = 0; }
static void condition_other(void)
{
    Op *op = conditional("micro", OP_gather_begin);
    op->nattr = 0;
    op_word(op, "if", "later");
}
static void condition_unknown(void)
{
    Op *op = conditional("micro", OP_gather_begin);
    op->nattr = 0;
    op_word(op, "if", "ever");
}
static void over_gathered(void) { value("b.down")->offset = value("micro.full.b.gate_up.w")->offset; }
static void over_summed(void) { value("b.datt")->offset = value("micro.grad.b.gate_up.w")->offset; }
static void gathered_late(void) { value("micro.full.b.gate_up.w")->first++; }
static void gathered_dead(void) { value("micro.full.b.gate_up.w")->last--; }
static void summed_dead(void) { value("micro.grad.b.gate_up.w")->last--; }
static void gathered_slots_few(void) { value("micro.full.b.gate_up.w")->slots = 1; }

static const struct {
    const char *name, *room;
    void (*damage)(void);
    int recipe;
    const char *says;        /* is in the message; NULL: anything */
} damages[] = {
#define D(room, f) {#f, room, f, 0, NULL}
    D("graph", operand_missing), D("graph", operand_added), D("graph", region_beyond), D("graph", region_negative),
    D("graph", shape_wrong), D("graph", shape_of_result), D("graph", rank_wrong), D("graph", dtype_wrong),
    D("graph", attribute_missing), D("graph", attribute_unknown), D("graph", attribute_twice),
    D("graph", attribute_kind), D("graph", attribute_type), D("graph", heads_wrong),
    D("fuse", shape_wrong), D("fuse", attribute_missing), D("part", dtype_wrong), D("part", heads_wrong),
    D("plan", shape_of_result), D("plan", attribute_kind),
    D("graph", index_outside), D("graph", index_beyond), D("graph", index_before), D("graph", constant_beyond),
    D("graph", use_before_definition), D("graph", never_defined), D("graph", two_definitions),
    D("graph", two_definitions_straight), D("graph", no_elements), D("graph", no_gradient),
    D("graph", gradient_never_written), D("graph", gradient_overwritten), D("graph", gradient_not_cleared),
    D("graph", gradient_not_in_norm), D("graph", no_update), D("graph", two_updates), D("graph", wrong_update),
    D("graph", frozen_updated), D("graph", rows_apart), D("graph", rows_missing),
    D("graph", program_unused), D("graph", clear_late), D("graph", reduce_early), D("graph", update_early),
    D("graph", micro_once), D("graph", micro_often), D("graph", eval_often), D("graph", result_not_written),
    D("graph", role_wrong), D("graph", tables_in_step),
    D("fuse", group_missing), D("fuse", group_empty), D("fuse", group_late), D("fuse", group_wrong_kernel),
    D("fuse", op_outside_group), D("fuse", group_other_region), D("fuse", group_small_workspace),
    D("fuse", two_rules_one_update),
    D("part", no_placement), D("part", gradient_whole), D("part", norm_before_sum), D("part", no_sum),
    D("part", gradient_not_summed), D("part", summed_twice), D("part", other_axis),
    D("part", each_rank_all_samples), D("part", update_of_divided),
    D("plan", unaligned), D("plan", negative), D("plan", outside_arena), D("plan", arena_small),
    D("plan", moment_on_moment), D("plan", on_temporary), D("plan", on_input),
    D("plan", workspace_on_operand), D("plan", workspace_lost), D("plan", slot_small),
    D("plan", born_late), D("plan", state_dead), D("plan", cache_dead),
    D("plan", gradients_apart), D("plan", moments_apart),
#undef D
#define D(room, f) {#f "_adapters", room, f, 1, NULL}
    D("graph", two_definitions_straight), D("graph", gradient_not_in_norm), D("graph", dtype_mixed),
    D("fuse", op_outside_group), D("plan", slots_few), D("plan", unaligned), D("plan", dead_early),
    D("plan", over_parameter), D("plan", adapter_workspace),
#undef D
#define D(room, f) {#f "_gpus", room, f, 2, NULL}
    D("part", no_sum), D("part", norm_before_sum), D("part", summed_each_micro), D("part", sum_not_begun),
    D("part", sum_not_joined), D("part", sum_before_write),
#undef D
#define D(room, f) {#f, room, f, 3, NULL}
    D("part", folded_whole), D("graph", not_folded), D("graph", folded_anew),
    D("graph", summed_over_micros), D("graph", micro_overwritten),
#undef D
#define D(room, f) {#f, room, f, 4, NULL}
    D("graph", read_after_update), D("graph", updated_half_way), D("graph", read_later_in_the_step),
    D("graph", updated_twice), D("graph", squares_not_cleared), D("graph", read_from_slot),
    D("part", updated_by_a_rank),
#undef D
#define D(room, f) {#f, room, f, 5, NULL}
    D("graph", blocks_few), D("graph", blocks_of_fewer_tensors), D("graph", moment_of_other_type),
    D("part", magnitudes_whole), D("part", magnitudes_more),
#undef D
#define D(room, f) {#f, room, f, 6, NULL}
    D("graph", blocks_of_another), D("graph", tensors_swapped), D("graph", group_lost), D("graph", base_trained),
    D("graph", codes_short), D("graph", absmax_short), D("plan", pinned_elsewhere),
#undef D
#define D(room, f, says) {#f, room, f, 7, says}
    D("part", summed_in_one_slot,
      "linear_dw in micro writes over a tensor of micro.grad.b.gate_up.w, which is being summed in parts"),
    D("part", gathered_in_one_slot,
      "gather_begin in micro writes over a tensor of micro.full.b.gate_up.w, which is being gathered"),
    D("part", summed_unfinished,
      "add_part in micro reads micro.grad.b.gate_up.w, which is being summed in parts; want: in parts"),
    D("part", summed_unfinished_last,
      "add_part in micro reads micro.grad.b.gate_up.w, which is being summed in parts; want: in parts"),
    D("part", gathered_unfinished,
      "linear in micro reads micro.full.b.gate_up.w, which is being gathered; want: whole on every rank"),
    D("part", gathered_unfinished_backward,
      "linear_dx in micro reads micro.full.b.gate_up.w, which is being gathered; want: whole"),
    D("part", gathered_unfinished_eval,
      "linear in eval reads eval.full.b.gate_up.w, which is being gathered; want: whole on every rank"),
    D("part", gathered_for_nobody, "gather_begin in micro leaves micro.full.b.gate_up.w, which is being gathered"),
    D("part", sum_for_nobody, "in micro leaves micro.grad.b.gate_up.w, which is being summed in parts"),
    D("part", not_begun,
      "gather_end in micro reads micro.full.b.gate_up.w, which is whole on every rank; want: being gathered"),
    D("part", not_begun_ahead,
      "gather_end in micro reads micro.full.b.gate_up.w, which is whole on every rank; want: being gathered"),
    D("part", sum_of_layer_not_begun,
      "scatter_end in micro reads micro.grad.b.gate_up.w, which is partial; want: being summed in parts"),
    D("part", kept_gathered_again,
      "gather_end in micro reads micro.full.b.gate_up.w, which is whole on every rank; want: being gathered"),
    D("part", read_in_first_turn,
      "linear in micro reads micro.full.b.gate_up.w, which is being gathered; want: whole on every rank"),
    D("part", parts_read, "linear in micro reads b.gate_up.w, which is in parts; want: whole on every rank"),
    D("part", divided_weight_whole, "wte is whole on every rank between programs; want: in parts"),
    D("part", condition_outside, "micro: gather_begin: attribute if: outside a region"),
    D("part", condition_missing, "micro: gather_begin: index of b.gate_up.w beyond its 4 elements"),
    D("part", condition_other, "micro: gather_begin: index of b.gate_up.w beyond its 4 elements"),
    D("part", condition_unknown, "micro: gather_begin: attribute if: must be inside|later, found ever"),
    D("plan", over_gathered, "comm_end of micro reads micro.full.b.gate_up.w, which is overwritten"),
    D("plan", over_summed, "comm_end of micro reads micro.grad.b.gate_up.w, which is overwritten"),
    D("plan", gathered_late, "micro.full.b.gate_up.w is used at 2..2, but live at 3.."),
    D("plan", gathered_dead, "micro.full.b.gate_up.w is used at "),
    D("plan", summed_dead, "micro.grad.b.gate_up.w is used at "),
    D("plan", gathered_slots_few, "comm_end of micro reads micro.full.b.gate_up.w, which is overwritten"),
#undef D
};

static void run(Config *c, const char *last, void (*damage)(void))
{
    static void (*const check[])(const Graph *) = {check_graph, check_fuse, check_part, check_plan};
    static void (*const room[])(Graph *) = {NULL, fuse_run, part_run, plan_run};
    g = graph_build(c);
    for (int i = 0;; i++) {
        if (i)
            room[i](g);
        if (strcmp(g->room, last)) {
            check[i](g);
            continue;
        }
        if (damage)
            damage();
        check[i](g);
        return;
    }
}

/* says: is in the message of a check that fails; NULL: anything. */
static const char *verdict(Config *c, const char *room, void (*damage)(void), const char *says)
{
    char message[PATH_MAX];
    snprintf(message, sizeof message, "%s/message", scratch);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen(message, "w", stderr))
            _exit(3);
        setvbuf(stderr, NULL, _IONBF, 0);
        run(c, room, damage);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return "no process";
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT)
        return strsignal(WTERMSIG(status));
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status) == 0 ? "not caught" : "nothing to damage";
    const char *said = file_text(message, 1 << 16, NULL);
    return !says || (said && strstr(said, says)) ? "caught" : text_print("it says %s", said);
}

/* Placements follow from what ops do, not from how a reader would write a dimension. */
static void other_symbols(void)
{
    for (int i = 0; i < g->nvalues; i++)
        for (int d = 0; d < g->values[i]->rank; d++)
            if (!strcmp(g->values[i]->dim[d].sym, "B"))
                g->values[i]->dim[d].sym = "1*B";
}

/* "", or a value that is elsewhere when the first dimension of the batch is called 1*B. */
static const char *symbols(Config *c)
{
    run(c, "part", NULL);
    const Graph *usual = g;
    run(c, "graph", other_symbols);
    fuse_run(g);
    part_run(g);
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->place != usual->values[i]->place)
            return g->values[i]->name;
    return "";
}

/* "", or a value that may have another placement without check_part noticing. */
static const char *placements(Config *c)
{
    run(c, "part", NULL);
    for (int i = 0; i < g->nvalues; i++)
        for (Placement other = PL_NONE; other <= PL_PARTIAL; other++) {
            Placement own = g->values[i]->place;
            if (other == own)
                continue;
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                if (!freopen("/dev/null", "w", stderr))
                    _exit(3);
                g->values[i]->place = other;
                check_part(g);
                _exit(0);
            }
            int status;
            if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) ||
                WTERMSIG(status) != SIGABRT)
                return g->values[i]->name;
        }
    return "";
}

/* ---- a graph's text with one mistake: how the line that says so begins ----------------------- */

static const struct { const char *name, *from, *to, *says; } mistakes[] = {
    {"shape", "%b.qkv  x4 slots 1  :f32[2,6,48]", "%b.qkv  x4 slots 1  :f32[2,6,47]",
     "linear: y = b.qkv is f32[2,6,47], must be act[N..,O] = f32[2,6,48]"},
    {"rank", "%tokens  x3 slots 3  :i32[2,6] (B,T)", "%tokens  x3 slots 3  :i32[12] (B*T)",
     "embed: tokens = tokens is i32[12], must be i32[B,T] = i32[2,6]"},
    {"dtype", "%b.norm1.rstd  x4 slots 1  :f32", "%b.norm1.rstd  x4 slots 1  :f64",
     "rmsnorm: rstd = b.norm1.rstd is f64[2,6], must be f32[N..] = f32[2,6]"},
    {"act", "$wte  :f32", "$wte  :bf16", "embed: y = x is f32[2,6,24], must be act[B,T,C] = bf16[2,6,24]"},
    {"operand", "= embed %tokens[m], $wte", "= embed %tokens[m]",
     "embed: 1 operands in and 1 out; ops.def: \"tokens:i32[B,T] wte:act[V,C]"},
    {"missing", "  eps 1e-06", "", "rmsnorm: attribute eps is missing"},
    {"unknown", "  eps 1e-06", "  esp 1e-05", "rmsnorm: has no attribute esp; ops.def: \"eps:float plus?:flag\""},
    {"twice", "  eps 1e-06", "  eps 1e-06  eps 1e-06", "rmsnorm: attribute eps is there twice"},
    {"kind", "  eps 1e-06", "  eps 1", "rmsnorm: attribute eps: must be a float, found 1"},
    {"flag", "  beta 1", "  beta 2", "ce_bwd: attribute beta: must be 0 or 1, found 2"},
    {"heads", "  heads 2", "  heads 0", "rope: attribute heads: must be an integer from 1, found 0"},
    {"word", "  heads 2", "  heads two", "rope: attribute heads: must be an integer from 1, found two"},
    {"index", "$b.qkv.w[l]", "$b.qkv.w[l+1]", "linear: index of b.qkv.w beyond its 4 elements"},
    {"outside", "= embed %tokens[m], $wte", "= embed %tokens[m], $b.norm1.w[l]",
     "embed: wte = b.norm1.w is f32[24], must be act[V,C] = f32[?,24]"},
    {"drops", "  mask causal", "  mask causal  dropout 0.5",
     "attention: dropout, site and sites go together, found a dropout and no site"},
    {"noise", "  mask causal", "  mask causal  dropout 0.5  site 0  sites 1",
     "attention: 1 operands in and 2 out; ops.def: \"qkv:act"},
    {"condition", "  beta 1  if inside", "  beta 1  if ever",
     "add_part: attribute if: must be inside|later, found ever"},
    {"condition missing", "  beta 1  if inside", "  beta 1",
     "add_part: index of micro.grad.b.gate_up.w beyond its 4 elements"},
    {"condition outside", "%micro.grad.b.gate_up.w[0]  beta 1", "%micro.grad.b.gate_up.w[0]  beta 1  if inside",
     "add_part: attribute if: outside a region"},
    {"mask", "  mask causal", "  mask docs", "attention: 1 operands in and 2 out; ops.def: \"qkv:act"},
};

static const char *parsed(const char *text)
{
    char *said = text_print("%s/said", scratch);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen(said, "w", stderr))
            _exit(3);
        ir_parse(text, "text");
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return "no process, or a crash";
    if (WEXITSTATUS(status) != 1)
        return text_print("exit %d", WEXITSTATUS(status));
    char *line = file_text(said, 1 << 16, NULL), *at = line ? strstr(line, ": ") : NULL;
    if (!at)
        return "nothing";
    *strchrnul(at, '\n') = 0;
    return at + 2;
}

/* Each in the first of the two texts that has what it replaces. */
static int try_mistakes(const char *first, const char *second)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const char *text = strstr(first, mistakes[i].from) ? first : second;
        const char *at = strstr(text, mistakes[i].from), *said = "nothing to replace";
        if (at)
            said = parsed(text_print("%.*s%s%s", (int)(at - text), text, mistakes[i].to,
                                              at + strlen(mistakes[i].from)));
        bool ok = !strncmp(said, mistakes[i].says, strlen(mistakes[i].says));
        printf("%s text/%s%s%s\n", ok ? "ok" : "not ok", mistakes[i].name, ok ? "" : ": ", ok ? "" : said);
        failed |= !ok;
    }
    return failed;
}

static int operands_in(const char *from, const char *to)
{
    int n = 0;
    for (; from < to; from++)
        n += *from == ':';
    return n;
}

/* "", or an op whose placements in ops.def are not as many as its operands. */
static const char *letters(void)
{
    for (int kind = 0; kind < NOPS; kind++) {
        const char *operands = op_row[kind].operands, *place = op_row[kind].place;
        const char *outputs = strstr(operands, "->"), *made = strstr(place, "->");
        if (!outputs || !made || made - place != operands_in(operands, outputs) ||
            (int)strlen(made + 2) != operands_in(outputs, outputs + strlen(outputs)))
            return op_row[kind].name;
    }
    return "";
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    objectives_install();
    scratch = argv[1];
    Config *c[RECIPES];
    int failed = 0;
    for (int i = 0; i < RECIPES; i++) {
        file[i] = text_print("%s/recipe%d.lua", scratch, i);
        file_write_if_changed(file[i], recipe[i], strlen(recipe[i]), false);
        c[i] = config_fill(recipe_load(file[i], NULL, 0), file[i]);
        check_config(c[i]);
        const char *sound = verdict(c[i], "plan", NULL, NULL);
        bool ok = !strcmp(sound, "not caught");
        printf(ok ? "ok check/sound %d\n" : "not ok check/sound %d: %s\n", i, sound);
        failed |= !ok;
    }
    bool lettered = !*letters();
    printf(lettered ? "ok check/part/letters\n" : "not ok check/part/letters: %s\n", letters());
    failed |= !lettered;
    for (int i = 0; i < RECIPES; i += 2) {
        const struct { const char *name, *found; } part[] = {
            {"dimensions of any name", symbols(c[i])}, {"placement of each value", placements(c[i])}};
        for (int k = 0; k < 2; k++) {
            bool ok = !*part[k].found;
            printf(ok ? "ok check/part/%s %d\n" : "not ok check/part/%s %d: %s\n", part[k].name, i, part[k].found);
            failed |= !ok;
        }
    }
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const char *said = verdict(c[damages[i].recipe], damages[i].room, damages[i].damage,
                                   damages[i].says);
        bool ok = !strcmp(said, "caught");
        printf("%s check/%s/%s%s%s\n", ok ? "ok" : "not ok", damages[i].room, damages[i].name, ok ? "" : ": ",
               ok ? "" : said);
        failed |= !ok;
    }
    return failed | try_mistakes(ir_print(graph_build(c[0])), ir_print(graph_build(c[7])));
}
