/* config_rules.c -- rules between recipe fields: derived defaults and invalid combinations.
 *
 * In:    every field typed and in range.
 * Out:   every default filled; no rule violated.
 * Keeps: values set by the recipe never change.
 * Method: rules in the order of fields.def; each message has the numbers and a remedy. */
#include "gen/config/family.h"
#include "gen/config/kept.h"
#include "gen/config/objective.h"
#include "gen/config/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const Family *family_of(const Config *c) { return family_find(c->v[F_model_family].s); }

/* ---- defaults that follow ------------------------------------------------------------------ */

static const ObjectiveRules *(*rules_find)(const char *objective);

void config_set_rules(const ObjectiveRules *(*find)(const char *objective)) { rules_find = find; }

const ObjectiveRules *config_rules(const Config *c)
{
    if (!rules_find)
        bug("config_set_rules() was not called");
    return rules_find(c->v[F_objective].s);
}

static bool is_open(const Config *c, int field) { return !c->v[field].set; }

void rule_fill_int(Config *c, int field, int64_t i)
{
    if (is_open(c, field)) {
        c->v[field].i = i;
        c->v[field].f = (double)i;
    }
}

void rule_fill_text(Config *c, int field, const char *text)
{
    if (is_open(c, field) && value_parse(field_row[field].type, &text, &c->v[field]))
        bug("%s: default %s", field_row[field].path, text);
}

const char *config_name(const Config *c)
{
    if (!is_open(c, F_name))
        return c->v[F_name].s;
    const char *slash = strrchr(c->recipe, '/'), *base = slash ? slash + 1 : c->recipe;
    size_t n = strlen(base);
    return text_print("%.*s", (int)(n > 4 && !strcmp(base + n - 4, ".lua") ? n - 4 : n), base);
}

/* With batch.global and batch.micro, batch.accum follows if it can. */
static void derive_accum(Config *c)
{
    const int64_t each = c->v[F_batch_micro].i * c->v[F_gpus].i, global = c->v[F_batch_global].i;
    const bool open = is_open(c, F_batch_accum) && !is_open(c, F_batch_micro);
    if (!global || !open || global == each)
        return;
    if (global % each)
        err_add(c->v[F_batch_global].loc,
                "batch.global: %" PRId64 " samples are not divided by batch.micro * gpus = %" PRId64
                " * %" PRId64 " = %" PRId64 "; try batch.global = %" PRId64,
                global, c->v[F_batch_micro].i, c->v[F_gpus].i, each,
                (global + each - 1) / each * each);
    else {
        rule_fill_int(c, F_batch_accum, global / each);
        c->v[F_batch_accum].loc = c->v[F_batch_global].loc;
    }
}

/* Computes the missing one of batch.global = batch.micro * batch.accum * gpus; checks that they
 * agree. */
static void derive_micro(Config *c)
{
    int64_t global = c->v[F_batch_global].i, accum = c->v[F_batch_accum].i, ranks = c->v[F_gpus].i,
            each = accum * ranks;
    if (!global || (!is_open(c, F_batch_micro) && is_open(c, F_batch_accum)))
        return;
    if (global % each)
        err_add(c->v[F_batch_global].loc,
                "batch.global: %" PRId64 " samples are not divided by batch.accum * gpus = %" PRId64
                " * %" PRId64 " = %" PRId64 "; try batch.global = %" PRId64,
                global, accum, ranks, each, (global + each - 1) / each * each);
    else if (is_open(c, F_batch_micro)) {
        rule_fill_int(c, F_batch_micro, global / each);
        c->v[F_batch_micro].loc = c->v[F_batch_global].loc;
        if (global / each > (int64_t)field_row[F_batch_micro].hi)
            err_add(c->v[F_batch_global].loc,
                    "batch.global: %" PRId64 " / (batch.accum * gpus) = %" PRId64
                    " samples are too many for a micro-batch; try batch.accum = %" PRId64,
                    global, global / each, accum * 2);
    } else if (c->v[F_batch_micro].i != global / each)
        err_add(c->v[F_batch_micro].loc,
                "batch.micro: batch.global = %" PRId64 " is micro * accum * gpus = %" PRId64
                " * %" PRId64 " * %" PRId64 " with micro = %" PRId64 ", got %" PRId64
                "; leave one of the two out",
                global, global / each, accum, ranks, global / each, c->v[F_batch_micro].i);
}

/* Canonical sums of several ranks are divided. */
static void derive_zero(Config *c)
{
    if (!strcmp(c->v[F_comm_order].s, "canonical") && c->v[F_gpus].i > 1)
        rule_fill_int(c, F_memory_zero, 1);
}

static int64_t near_multiple(int64_t x, int64_t of, bool above)
{
    return (x + (above ? of - 1 : 0)) / of * of;
}

static void derive_head_dim(Config *c)
{
    int64_t hidden = c->v[F_model_hidden].i, heads = c->v[F_model_heads].i;
    if (!is_open(c, F_model_head_dim))
        return;
    int64_t below = near_multiple(hidden, heads, false), above = near_multiple(hidden, heads, true);
    if (below != above)
        err_add(c->v[F_model_hidden].loc,
                "model.hidden: %" PRId64 " is not a multiple of heads = %" PRId64
                "; try hidden = %" PRId64,
                hidden, heads, hidden - below < above - hidden && below ? below : above);
    rule_fill_int(c, F_model_head_dim, hidden / heads);
}

int64_t config_texts(const Config *c)
{
    enum { MOST = 8 };
    const int64_t sequences = c->v[F_batch_micro].i * objective_sequences(c);
    return !is_open(c, F_batch_texts) ? c->v[F_batch_texts].i
           : sequences < MOST              ? sequences
                                           : MOST;
}

const char *config_default_master(const Config *c)
{
    return strcmp(c->v[F_precision].s, "bf16") ? "fp32" : "remainder";
}

static void derive_master(Config *c)
{
    rule_fill_text(c, F_optim_master, text_print("\"%s\"", config_default_master(c)));
}

/* True if the weights of a precision may have this optim.master. */
static bool takes_master(const char *precision, const char *master)
{
    return !strcmp(master, "fp32") || !strcmp(precision, "bf16");
}

static bool takes_precision(const Config *c, const char *precision)
{
    return strcmp(precision, "fp16") || strcmp(target_find(c->v[F_target].s)->backend, "cpu");
}

void config_derive(Config *c)
{
    c->name = c->v[F_name].s = config_name(c);
    if (objective_find(c->v[F_objective].s)->standalone)
        return;
    const Family *f = family_of(c);
    derive_accum(c);
    derive_micro(c);
    derive_zero(c);
    derive_master(c);
    rule_fill_int(c, F_model_kv_heads, c->v[F_model_heads].i);
    derive_head_dim(c);
    if (is_open(c, F_model_ffn) && !f->ffn)
        err_add(c->v[F_model_ffn].loc,
                "model.ffn: is required for %s: width of the feed-forward layer", f->name);
    rule_fill_int(c, F_model_ffn, f->ffn * c->v[F_model_hidden].i);
    rule_fill_int(c, F_model_positions, c->v[F_seq_max].i);
    rule_fill_text(c, F_model_norm_eps, f->eps);
    if (is_open(c, F_model_query_scalar))
        c->v[F_model_query_scalar].f = (double)c->v[F_model_head_dim].i;
    rule_fill_int(c, F_model_tied, f->tied);
    rule_fill_int(c, F_model_pad, f->padded ? 0 : -1);
    rule_fill_int(c, F_batch_texts, config_texts(c));
    if (is_open(c, F_lora_alpha))
        c->v[F_lora_alpha].f = (double)(2 * c->v[F_lora_rank].i);
    FieldValue *targets = &c->v[F_lora_targets];
    if (is_open(c, F_lora_targets)) {
        targets->list = arena_new(FAMILY_LEAVES * sizeof *targets->list);
        targets->n = c->v[F_lora_rank].i ? family_default_targets(f, targets->list) : 0;
    }
    if (config_rules(c)->defaults)
        config_rules(c)->defaults(c);
    err_flush();
}

/* ---- rules --------------------------------------------------------------------------------- */

Loc rule_loc(const Config *c, int a, int b)
{
    return c->v[a].set || !c->v[b].set ? c->v[a].loc : c->v[b].loc;
}

static void check_name(const Config *c)
{
    const char *s = c->name;
    size_t ok = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (!*s || s[ok] || strlen(s) > 100 || *s == '.' || *s == '-')
        err_add(c->v[F_name].loc,
                "name: must be up to 100 letters, digits and _ . - that begin with a letter, digit "
                "or _, got %s",
                value_print(FT_STRING, &c->v[F_name]));
}

/* Fields that only other objectives have are errors. */
static void check_objective(const Config *c)
{
    const Objective *o = objective_find(c->v[F_objective].s);
    for (int i = 0; i < NFIELDS; i++)
        if (c->v[i].set && o->standalone && !field_applies(c, i) && !field_of_cluster(i))
            err_add(c->v[i].loc,
                    "%s: recipes whose objective is %s train no model of layers and have no such "
                    "field; leave it out",
                    field_row[i].path, o->name);
        else if (c->v[i].set && field_objectives(i) && !field_applies(c, i))
            err_add(c->v[i].loc, "%s: only for recipes whose objective is %s; this one's is %s: "
                                 "leave it out", field_row[i].path, field_objectives(i), o->name);
    for (int i = 0; i < NFIELDS; i++)
        if (c->v[i].set && field_fixed(c, i))
            err_add(c->v[i].loc, "%s: %s; leave it out", field_row[i].path, field_fixed(c, i));
    for (int i = 0; i < c->nrun; i++) {
        const int flag = run_flag_find(c->run_name[i]);
        const char *of = run_flag_objectives(flag);
        if (!run_flag_applies(flag, o->name))
            err_add(c->run_loc[i], "run.%s: %s; this one's is %s: leave it out", c->run_name[i],
                    of ? text_print("only for programs whose objective is %s", of)
                       : "only for programs whose objective trains a model of layers", o->name);
    }
    if (*o->kinds ? !names_listed(o->kinds, c->v[F_data_kind].s) : c->v[F_data_kind].set)
        err_add(c->v[F_data_kind].loc, "data.kind: objective=%s trains on %s, got \"%s\"%s",
                o->name, *o->kinds ? o->kinds : "no token files", c->v[F_data_kind].s,
                objective_for(c->v[F_data_kind].s));
}

static void check_precision(const Config *c)
{
    if (!takes_precision(c, c->v[F_precision].s))
        err_add(c->v[F_precision].loc,
                "precision: fp16 needs a GPU target; for target = \"%s\" try \"bf16\" or "
                "\"fp32\"",
                c->v[F_target].s);
}

static void check_master(const Config *c)
{
    const FieldValue *master = &c->v[F_optim_master];
    const char *precision = c->v[F_precision].s;
    if (!takes_master(precision, master->s))
        err_add(master->loc,
                "optim.master: \"%s\" is for precision = \"bf16\": %s; leave it out", master->s,
                strcmp(precision, "fp16") ? "here weights are fp32 themselves"
                                          : "fp16 has other exponents than fp32");
}

/* Fields that affect only GPU programs. */
static void check_gpu_fields(const Config *c)
{
    static const int field[] = {F_lora_fold, F_kernels_graph, F_comm_overlap, F_tune_lock,
                                F_tune_card, F_memory_embedding, F_kernels_attention,
                                F_kernels_logits};
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++)
        if (c->v[field[i]].set && !strcmp(target_find(c->v[F_target].s)->backend, "cpu"))
            err_add(c->v[field[i]].loc, "%s: is for GPU targets; target = \"%s\" has no use for it",
                    field_row[field[i]].path, c->v[F_target].s);
    if (!strcmp(c->v[F_kernels_logits].s, "16bit") && !strcmp(c->v[F_precision].s, "fp32"))
        err_add(rule_loc(c, F_kernels_logits, F_precision),
                "kernels.logits: \"16bit\" needs precision = \"bf16\" or \"fp16\"; leave it out");
}

static void check_batch(const Config *c)
{
    int64_t T = c->v[F_seq_max].i, samples = c->v[F_batch_micro].i,
            each = objective_sequences(c), B = samples * each;
    int64_t sequences = B * c->v[F_batch_accum].i * c->v[F_gpus].i;
    const char *times = each > 1 ? text_print("%" PRId64 " * ", each) : "";
    if (B * T > INT32_MAX)
        err_add(rule_loc(c, F_batch_micro, F_seq_max),
                "batch.micro: %" PRId64 " sequences of %" PRId64 " tokens are %" PRId64
                " tokens, more than 2147483647; try batch.micro = %" PRId64,
                B, T, B * T, INT32_MAX / T / each > 0 ? INT32_MAX / T / each : 1);
    if (sequences > INT32_MAX)
        err_add(rule_loc(c, F_batch_accum, F_gpus),
                "batch.accum: a global batch of micro * accum * gpus = %" PRId64 " * %" PRId64
                " * %" PRId64 " = %" PRId64 " sequences is more than 2147483647",
                samples, c->v[F_batch_accum].i, c->v[F_gpus].i, sequences);
    if (T > c->v[F_model_positions].i && !field_fixed(c, F_seq_max))
        err_add(rule_loc(c, F_seq_max, F_model_positions),
                "seq.max: %" PRId64 " tokens, but the model has %" PRId64
                " positions; try seq.max = %" PRId64,
                T, c->v[F_model_positions].i, c->v[F_model_positions].i);
    if (c->v[F_batch_targets].i > B * T)
        err_add(c->v[F_batch_targets].loc,
                "batch.targets: %" PRId64 " is more than batch.micro * seq.max = %s%" PRId64
                " * %" PRId64 " = %" PRId64 "; 0 sends all rows through the head",
                c->v[F_batch_targets].i, times, samples, T, B * T);
    if (c->v[F_memory_loss_rows].i > B * T)
        err_add(c->v[F_memory_loss_rows].loc,
                "memory.loss_rows: %" PRId64 " is more than batch.micro * seq.max = %s%" PRId64
                " * %" PRId64 " = %" PRId64 "; 0 lets the generator choose",
                c->v[F_memory_loss_rows].i, times, samples, T, B * T);
}

/* Tensors are divided into 64 shares, a whole number of them a rank. */
enum { MANY = 32, MOST = 64 };

static bool ranks_divide(int64_t ranks) { return ranks > 1 && (ranks <= MANY || ranks == MOST); }

static void check_zero(const Config *c)
{
    const FieldValue *zero = &c->v[F_memory_zero];
    const int64_t ranks = c->v[F_gpus].i;
    if (!zero->i && ranks > 1 && !strcmp(c->v[F_comm_order].s, "canonical"))
        err_add(zero->loc,
                "memory.zero: comm.order = \"canonical\" divides the sums of gradients over ranks, "
                "and needs at least 1, got 0; leave it out, or add memory.zero=1");
    if (!zero->i)
        return;
    if (ranks == 1)
        err_add(zero->loc,
                "memory.zero: with gpus = 1 there is nothing to divide; leave it out, or add "
                "memory.zero=0");
    else if (!ranks_divide(ranks))
        err_add(rule_loc(c, F_gpus, F_memory_zero),
                "%s: tensors are divided over at most %d ranks, or over %d, got gpus = %" PRId64,
                field_row[zero->set ? F_memory_zero : F_comm_order].path, MANY, MOST, ranks);
}

/* Fields that contradict canonical order: gradients are sent after each micro-batch, and rates do
 * not depend on the number of ranks. */
static void check_order(const Config *c)
{
    static const int unused[] = {F_comm_overlap, F_comm_bucket_mib};
    if (strcmp(c->v[F_comm_order].s, "canonical"))
        return;
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (c->v[unused[i]].set)
            err_add(c->v[unused[i]].loc, "%s: has no effect with comm.order = \"canonical\", which "
                    "sends gradients after each micro-batch; leave it out",
                    field_row[unused[i]].path);
    for (int i = 0; i < c->nrun; i++)
        if (strstr(c->run_name[i], "lr_scale") && strcmp(c->run_value[i], "none"))
            err_add(c->run_loc[i], "run.%s: comm.order = \"canonical\" trains alike on any number "
                    "of ranks, but a %s rate counts them; set run.%s=none, and the rate itself",
                    c->run_name[i], c->run_value[i], c->run_name[i]);
}

/* The text that the recipe gives a run-time flag; NULL: none. */
static const char *run_text(const Config *c, const char *name, Loc *loc)
{
    for (int i = 0; i < c->nrun; i++)
        if (!strcmp(c->run_name[i], name)) {
            *loc = c->run_loc[i];
            return c->run_value[i];
        }
    return NULL;
}

/* Fields that contradict updates inside the backward pass. */
static void check_when(const Config *c)
{
    const FieldValue *when = &c->v[F_optim_when];
    if (strcmp(when->s, "backward"))
        return;
    if (c->v[F_batch_accum].i > 1)
        err_add(rule_loc(c, F_batch_accum, F_optim_when),
                "optim.when: \"backward\" keeps no gradient to which a further micro-batch could "
                "add, got batch.accum = %" PRId64 "; set batch.accum = 1, or optim.when = "
                "\"step\"", c->v[F_batch_accum].i);
    if (!strcmp(c->v[F_precision].s, "fp16"))
        err_add(rule_loc(c, F_precision, F_optim_when),
                "optim.when: with fp16 an update is undone if any gradient left the range, which "
                "\"backward\" learns too late; set precision = \"bf16\"");
    if (!strcmp(c->v[F_comm_order].s, "canonical"))
        err_add(rule_loc(c, F_comm_order, F_optim_when),
                "optim.when: \"backward\" has a single micro-batch a rank, which would fix the "
                "number of ranks of comm.order = \"canonical\"; leave comm.order out");
    if (c->v[F_memory_zero].i)
        err_add(rule_loc(c, F_memory_zero, F_optim_when),
                "optim.when: \"backward\" updates whole weights, but with memory.zero = %" PRId64
                " a rank updates its part of them; set memory.zero = 0, or optim.when = \"step\"",
                c->v[F_memory_zero].i);
    if (c->v[F_comm_overlap].set)
        err_add(c->v[F_comm_overlap].loc,
                "comm.overlap: has no effect with optim.when = \"backward\", which sums each "
                "gradient over the ranks before its update; leave it out");
    Loc at = when->loc;
    const char *clip = run_text(c, "clip", &at);
    if (!clip || strtod(clip, NULL) > 0)
        err_add(at, "run.clip: with optim.when = \"backward\" there is no norm before the first "
                "update; set run.clip = 0");
    const char *nonfinite = run_text(c, "nonfinite", &at);
    if (nonfinite && !strcmp(nonfinite, "skip"))
        err_add(at, "run.nonfinite: with optim.when = \"backward\" weights have changed before the "
                "norm is known, and no update can be skipped; set run.nonfinite = \"stop\"");
}

int64_t near_divisor(int64_t n, int64_t k)
{
    for (int64_t d = 1;; d++) {
        if (k - d >= 1 && n % (k - d) == 0)
            return k - d;
        if (k + d >= n)
            return n;
        if (n % (k + d) == 0)
            return k + d;
    }
}

static void check_heads(const Config *c, const Family *f)
{
    int64_t hidden = c->v[F_model_hidden].i, heads = c->v[F_model_heads].i,
            kv = c->v[F_model_kv_heads].i, hd = c->v[F_model_head_dim].i;
    if (f->whole_heads && heads * hd != hidden)
        err_add(rule_loc(c, F_model_head_dim, F_model_heads),
                "model.head_dim: heads * head_dim = %" PRId64 " * %" PRId64 " = %" PRId64
                ", but hidden = %" PRId64 ", and %s needs them equal; leave head_dim out or try "
                "hidden = %" PRId64,
                heads, hd, heads * hd, hidden, f->name, heads * hd);
    if (f->whole_heads && kv != heads)
        err_add(c->v[F_model_kv_heads].loc,
                "model.kv_heads: %s has as many as heads: leave it out, got %" PRId64, f->name, kv);
    else if (heads % kv)
        err_add(rule_loc(c, F_model_kv_heads, F_model_heads),
                "model.kv_heads: heads = %" PRId64 " is not a multiple of "
                "kv_heads = %" PRId64 "; try kv_heads = %" PRId64,
                heads, kv, near_divisor(heads, kv));
    if (f->rotary && hd % 2)
        err_add(rule_loc(c, F_model_head_dim, F_model_heads),
                "model.head_dim: %" PRId64 " is odd; rotary embeddings "
                "turn pairs: try %" PRId64,
                hd, hd + 1);
}

/* Fields without effect for this family or these settings are errors. */
static void refuse_set(const Config *c, int first, int last, const char *why)
{
    for (int i = first; i <= last; i++)
        if (c->v[i].set)
            err_add(c->v[i].loc, "%s: %s", field_row[i].path, why);
}

static const char *bias_choosers(void)
{
    Str s = {0};
    for (int i = 0; i < family_count(); i++)
        if (family_row(i)->bias_chosen)
            str_print(&s, "%s%s", s.n ? ", " : "", family_row(i)->name);
    return s.text;
}

/* Lists the families that have a class with this head. */
static const char *headed_families(const char *head)
{
    Str s = {0};
    for (int i = 0; i < family_count(); i++)
        if (family_class(family_row(i)->name, head))
            str_print(&s, "%s%s", s.n ? ", " : "", family_row(i)->name);
    return s.text;
}

void rule_token(const Config *c, int field, bool required)
{
    const FieldValue *v = &c->v[field];
    if (v->i >= c->v[F_model_vocab].i || (required && v->i < 0))
        err_add(v->loc, "%s: token %" PRId64 " is outside the vocabulary: must be %d to %" PRId64,
                field_row[field].path, v->i, required ? 0 : -1, c->v[F_model_vocab].i - 1);
}

static void check_family(const Config *c, const Family *f)
{
    const Objective *o = objective_find(c->v[F_objective].s);
    if (!family_class(f->name, o->head))
        err_add(rule_loc(c, F_model_family, F_objective),
                "model.family: the objective %s is for %s, not for %s", o->name,
                headed_families(o->head), f->name);
    bool scaled = strcmp(c->v[F_model_rope_scaling].s, "none") != 0;
    if (!f->rotary)
        refuse_set(c, F_model_rope_theta, F_model_rope_original_positions,
                   text_print("%s has no rotary embedding; leave it out", f->name));
    else if (!scaled)
        refuse_set(c, F_model_rope_factor, F_model_rope_original_positions,
                   "has no effect while model.rope_scaling is \"none\"; set that or "
                   "leave this out");
    else if (strcmp(c->v[F_model_rope_scaling].s, "llama3"))
        refuse_set(c, F_model_rope_low_freq_factor, F_model_rope_original_positions,
                   "is only for model.rope_scaling = \"llama3\"; leave it out");
    for (int i = 0; i < NFIELDS; i++)
        if (field_of_families(i) && !family_writes(f, field_row[i].path))
            refuse_set(c, i, i, text_print("%s has none; leave it out", f->name));
    if (f->layered && scaled)
        err_add(c->v[F_model_rope_scaling].loc,
            "model.rope_scaling: scaled rotary embeddings of %s are not supported; leave it out",
                f->name);
    if (f->layered && c->v[F_seq_max].i > c->v[F_model_window].i)
        err_add(rule_loc(c, F_seq_max, F_model_window),
                "seq.max: %" PRId64 " tokens, but layers of %s attend only to the last %" PRId64
                " (model.window), and longer sequences are not supported; try seq.max = %" PRId64,
                c->v[F_seq_max].i, f->name, c->v[F_model_window].i, c->v[F_model_window].i);
    if (scaled && f->rotary && family_writes(f, "model.rope_theta"))
        err_add(c->v[F_model_rope_scaling].loc,
                "model.rope_scaling: the family %s does not have it, and its config.json has no "
                "key for it; leave it out",
                f->name);
    if (scaled && c->v[F_model_rope_low_freq_factor].f >= c->v[F_model_rope_high_freq_factor].f)
        err_add(
            rule_loc(c, F_model_rope_low_freq_factor, F_model_rope_high_freq_factor),
            "model.rope_low_freq_factor: %.15g must be below model.rope_high_freq_factor = %.15g",
            c->v[F_model_rope_low_freq_factor].f, c->v[F_model_rope_high_freq_factor].f);
    if (f->torch_init)
        refuse_set(c, F_model_init_std, F_model_init_std,
                   text_print("weights of %s are initialised as PyTorch's modules are; leave it "
                              "out",
                              f->name));
    if (f->tied_fixed && c->v[F_model_tied].i != f->tied)
        err_add(c->v[F_model_tied].loc,
                f->tied ? "model.tied: the head of %s is its token embedding; leave it out"
                        : "model.tied: the head of %s is a matrix of its own; leave it out",
                f->name);
    if (!f->bias_chosen)
        refuse_set(c, F_model_attention_bias, F_model_attention_bias,
                   text_print("is only for %s; %s has its own biases: leave it out",
                              bias_choosers(), f->name));
    for (int i = F_model_dropout; i <= F_model_attention_dropout; i++)
        if (c->v[i].f > 0 && !family_writes(f, field_row[i].path))
            err_add(c->v[i].loc,
                    "%s: the family %s does not have it, and its config.json has no key for it; "
                    "leave it out",
                    field_row[i].path, f->name);
    if (!f->padded && !f->pad_chosen && c->v[F_model_pad].i >= 0)
        err_add(c->v[F_model_pad].loc, "model.pad: %s has no row of padding; leave it out",
                f->name);
    rule_token(c, F_model_bos, false);
    rule_token(c, F_model_eos, false);
    rule_token(c, F_model_pad, f->padded);
}

static const char *with_blanks(const char *const *word, int n)
{
    Str s = {0};
    for (int i = 0; i < n; i++)
        str_print(&s, "%s%s", i ? " " : "", word[i]);
    return s.text;
}

/* Checks that each word of a list is a module of the family. */
static void check_modules(const Config *c, int field, const char *const *word, int n,
                          const Family *f)
{
    const FieldValue *v = &c->v[field];
    for (int i = 0; i < v->n; i++) {
        int k = 0;
        while (k < n && strcmp(word[k], v->list[i]))
            k++;
        if (k < n || (field == F_lora_targets && family_has_linear(f, v->list[i])))
            continue;
        FieldValue one = {.s = v->list[i]};
        const char *dot = strrchr(v->list[i], '.');      /* "self_attn.q_proj" */
        const char *near = text_nearest(dot ? dot + 1 : v->list[i], word, n);
        err_add(v->loc, "%s: %s has no module %s; %s", field_row[field].path, f->name,
                value_print(FT_STRING, &one),
                strpbrk(v->list[i], ", ") ? "write a list: { \"q_proj\", \"v_proj\" }"
                : near ? text_print("did you mean \"%s\"?", near)
                     : text_print("there are: %s", with_blanks(word, n)));
    }
}

static void check_keep(const Config *c)
{
    const FieldValue *keep = &c->v[F_memory_keep];
    const char *word[KEPT_WORDS];
    const int n = kept_words(word);
    if (keep->n && strcmp(c->v[F_memory_recompute].s, "block"))
        err_add(keep->loc, "memory.keep: has no effect with memory.recompute = \"%s\", which %s; "
                "set that to \"block\", or leave this out", c->v[F_memory_recompute].s,
                strcmp(c->v[F_memory_recompute].s, "auto") ? "keeps everything"
                                                             : "chooses what to keep");
    for (int i = 0; i < keep->n; i++) {
        int k = 0;
        while (k < n && strcmp(word[k], keep->list[i]))
            k++;
        if (k < n)
            continue;
        const char *near = text_nearest(keep->list[i], word, n);
        err_add(keep->loc, "memory.keep: no value of a block is called \"%s\"; %s", keep->list[i],
                near ? text_print("did you mean \"%s\"?", near)
                     : text_print("there are: %s", with_blanks(word, n)));
    }
}

/* An adapter on a feed-forward layer; NULL: none. */
static const char *ffn_adapter(const Config *c, const Family *f)
{
    const FieldValue *targets = &c->v[F_lora_targets];
    const char *const path[] = {f->gate, f->up, f->down};
    for (int i = 0; c->v[F_lora_rank].i && i < targets->n; i++)
        for (int k = 0; k < 3; k++)
            if (!strcmp(targets->list[i], "all-linear") ||
                (path[k] && family_names(targets->list[i], path[k])))
                return targets->list[i];
    return NULL;
}

static void check_ffn_rows(const Config *c, const Family *f)
{
    const FieldValue *tile = &c->v[F_memory_ffn_rows], *keep = &c->v[F_memory_keep];
    const int64_t rows = c->v[F_batch_micro].i * objective_sequences(c) * c->v[F_seq_max].i;
    const int64_t wanted = tile->i < rows ? tile->i : rows;
    const char *adapter = ffn_adapter(c, f);
    int64_t most = wanted;
    if (!tile->i)
        return;
    while (rows % most)
        most--;
    if (2 * most <= wanted)
        err_add(tile->loc,
                "memory.ffn_rows: a tile has the most of %" PRId64 " rows that divide the %" PRId64
                " of a micro-batch, which is %" PRId64 "; choose a divisor", tile->i, rows, most);
    for (int i = 0; i < keep->n; i++)
        if (!strcmp(keep->list[i], "gate_up") || !strcmp(keep->list[i], "act"))
            err_add(keep->loc, "memory.keep: \"%s\" exists for a tile at a time with "
                    "memory.ffn_rows = %" PRId64 ", so it cannot be kept; leave one of the two out",
                    keep->list[i], tile->i);
    if (adapter && c->v[F_lora_dropout].f > 0)
        err_add(c->v[F_lora_dropout].loc, "lora.dropout: memory.ffn_rows = %" PRId64 " computes "
                "adapters on feed-forward layers (lora.targets: \"%s\") in tiles, which drop "
                "nothing; leave one of the two out, or choose targets of attention",
                tile->i, adapter);
    if (adapter && !strcmp(c->v[F_lora_fold].s, "all"))
        err_add(c->v[F_lora_fold].loc, "lora.fold: \"all\" cannot fold adapters on feed-forward "
                "layers (lora.targets: \"%s\") that memory.ffn_rows computes in tiles; set "
                "lora.fold = \"auto\"", adapter);
    if (f->hidden_drop && c->v[F_model_dropout].f > 0)
        err_add(tile->loc, "memory.ffn_rows: %s drops elements inside feed-forward layers, which "
                "tiles do not; set model.dropout = 0, or leave it out", f->name);
}

static void check_lora(const Config *c, const Family *f)
{
    if (!c->v[F_lora_rank].i) {
        refuse_set(
            c, F_lora_alpha, F_lora_modules_to_save,
            "has no effect while lora.rank is 0; set lora.rank, for example 16, or leave this out");
        return;
    }
    if (!family_takes_adapters(f)) {
        err_add(c->v[F_lora_rank].loc,
                "lora.rank: adapters on one module per attention head, as %s has them, are not "
                "supported; leave it out",
                f->name);
        return;
    }
    const FieldValue *targets = &c->v[F_lora_targets], *saved = &c->v[F_lora_modules_to_save];
    const char *linear[FAMILY_LEAVES + 1], *table[FAMILY_LEAVES];
    int n = family_linears(f, linear);
    linear[n] = "all-linear";
    check_modules(c, F_lora_targets, linear, n + 1, f);
    check_modules(c, F_lora_modules_to_save, table, family_tables(f, table), f);
    if (!targets->n)
        err_add(targets->loc, "lora.targets: needs at least one module, or \"all-linear\"");
    for (int i = 0; i < targets->n; i++)
        if (targets->n > 1 && !strcmp(targets->list[i], "all-linear"))
            err_add(targets->loc, "lora.targets: \"all-linear\" must be the only item");
    if (!strcmp(c->v[F_lora_base].s, "nf4") && f->transposed)
        err_add(c->v[F_lora_base].loc,
                "lora.base: \"nf4\" is not supported for %s, whose files hold transposed matrices; "
                "leave it out",
                f->name);
    if (saved->n && c->v[F_model_tied].i)
        err_add(saved->loc, "lora.modules_to_save: model.tied = true makes embedding and head one "
                            "matrix, which cannot be trained along with adapters; leave this out");
}

/* Rules of a standalone program. */
static void check_whole(const Config *c)
{
    const Target *t = target_find(c->v[F_target].s);
    if (strcmp(t->backend, "cpu"))
        err_add(c->v[F_target].loc,
                "target: programs of the objective %s run on CPUs: must be cpu, cpu_v4 or "
                "cpu_native, got \"%s\"",
                c->v[F_objective].s, t->name);
}

static void check_own(const Config *c)
{
    if (config_rules(c)->check)
        config_rules(c)->check(c);
}

void check_config(Config *c)
{
    check_name(c);
    check_cluster(c);
    check_objective(c);
    if (objective_find(c->v[F_objective].s)->standalone) {
        check_whole(c);
        check_own(c);
        err_flush();
        return;
    }
    const Family *f = family_of(c);
    check_precision(c);
    check_master(c);
    check_gpu_fields(c);
    check_batch(c);
    check_zero(c);
    check_order(c);
    check_when(c);
    check_heads(c, f);
    check_family(c, f);
    check_lora(c, f);
    check_keep(c);
    check_ffn_rows(c, f);
    check_own(c);
    err_flush();
}
