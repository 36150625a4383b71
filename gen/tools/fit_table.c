/* fit_table.c -- `gen fit`: settings with which a recipe fits a card, as a table.
 *
 * In:    a recipe, FIELD=VALUE words, a card, a number of GPUs.
 * Out:   plans that fit, best first, with what to add; or the nearest that do not. Exit code 0
 *        or 1.
 * Keeps: every row is a plan that was made: gen plan with its words prints the same bytes. */
#include "gen/tools/fit_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gen/lower/lower.h"
#include "gen/tools/answer.h"
#include "gen/tools/doctor.h"
#include "gen/tools/fit_search.h"
#include "gen/tools/tools.h"

enum { GIB_SHIFT = 30 };

/* ---- the question ---------------------------------------------------------------------------- */

static bool has_field(const FitAsk *ask, const char *field)
{
    const size_t n = strlen(field);
    for (int i = 0; i < ask->nplace; i++)
        if (!strncmp(ask->place[i], field, n) && ask->place[i][n] == '=')
            return true;
    return false;
}

static void add_gpus(FitAsk *ask, const char *text)
{
    char *end;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > (long long)field_row[F_gpus].hi)
        err((Loc){0}, "fit: --gpus %s: must be a number of GPUs from 1 to %.0f", text_shell(text),
            field_row[F_gpus].hi);
    if (has_field(ask, "gpus"))
        err((Loc){0}, "fit: --gpus %s: the words set gpus, too; leave one of them out", text);
    ask->place[ask->nplace++] = text_print("gpus=%lld", n);
}

static int64_t host_bytes(const char *text)
{
    char *end;
    const double gib = strtod(text, &end);
    if (end == text || *end || !(gib >= 0 && gib <= 1048576))
        err((Loc){0}, "fit: --host-gib %s: must be a number of GiB from 0 to 1048576",
            text_shell(text));
    return (int64_t)(gib * (double)(INT64_C(1) << GIB_SHIFT));
}

/* memory.limit_gib with at most so many bytes. */
static char *limit_word(int64_t bytes)
{
    const int64_t tenths = bytes / (INT64_C(1) << GIB_SHIFT) * 10 +
                           bytes % (INT64_C(1) << GIB_SHIFT) * 10 / (INT64_C(1) << GIB_SHIFT);
    return text_print("memory.limit_gib=%" PRId64 ".%" PRId64, tenths / 10, tenths % 10);
}

/* Without a card, programs for a CPU may use this machine, its ranks a part each. */
static void use_machine(FitAsk *ask)
{
    const Config *c = fit_config(ask);
    const Target *t = target_find(c->v[F_target].s);
    if (strcmp(t->backend, "cpu") || c->cluster || has_field(ask, "card") ||
        has_field(ask, "memory.limit_gib"))
        return;
    const Doctor d = {.root = ""};
    ask->place[ask->nplace++] = limit_word(doctor_memory(&d, NULL) / fit_ranks(ask, c));
}

/* Adds the options to a question, and this machine's memory. */
static void complete(FitAsk *ask, const FitOptions *o)
{
    if (o->gpus)
        add_gpus(ask, o->gpus);
    if (o->host_gib)
        ask->host = host_bytes(o->host_gib);
    ask->exact = o->exact;
    for (int i = 0; i < ask->nplace; i++) {
        const char *card = strncmp(ask->place[i], "card=", 5) ? "" : ask->place[i] + 5;
        if (*card && strcmp(card, "none") && card_fault(card))
            err((Loc){0}, "fit: card: %s", card_fault(card));
    }
    const Config *c = fit_config(ask);
    if (objective_find(c->v[F_objective].s)->standalone)
        err(c->v[F_objective].loc, "fit: recipes whose objective is %s train no model of layers: "
            "there is nothing to fit", c->v[F_objective].s);
    use_machine(ask);
}

/* The arguments of gen for a plan: "recipes/x.lua card=rtx3070 lora.base=nf4". */
static char *arguments(const FitAsk *ask, const char *command, const FitPlan *p)
{
    char **word;
    const int n = fit_all_words(ask, p->word, p->nwords, &word);
    Str s = {0};
    str_print(&s, "%s", command);
    for (int i = 0; i < n; i++)
        str_print(&s, " %s", text_shell(word[i]));
    return s.text;
}

/* ---- as text --------------------------------------------------------------------------------- */

static const char *added(const FitPlan *p)
{
    return p->nwords ? fit_words(p) + 1 : "nothing";
}

static const char *or_dash(double bytes)
{
    return bytes > 0 ? text_bytes((int64_t)bytes) : "-";
}

static void print_head(const FitAsk *ask, const FitTable *t, FILE *to)
{
    const Config *c = t->config;
    Str place = {0};
    for (int i = 0; i < ask->nplace; i++)
        str_print(&place, " %s", ask->place[i]);
    const FitPlan *p = t->nall ? t->all[0] : t->nover ? t->over[0] : NULL;
    fprintf(to, "%s%s: %s a rank, %" PRId64 " rank%s; an update has %s sample%s of %" PRId64
            " tokens\n", c->name, place.n ? place.text : "",
            p && p->limit < INT64_MAX ? text_bytes(p->limit) : "as much as there is", t->ranks,
            t->ranks == 1 ? "" : "s", text_grouped(t->samples), t->samples == 1 ? "" : "s",
            c->v[F_seq_max].i);
}

static void print_row(const FitPlan *p, int width, FILE *to)
{
    const char *lost = fit_lost(p);
    fprintf(to, "  %10s %11s %11s %11s  %-*s  %s\n", text_grouped((int64_t)p->tokens),
            text_bytes(p->device), or_dash((double)p->host), or_dash(p->sent), width, added(p),
            *lost ? lost : p->exact ? "nothing" : "nothing but rounding");
}

static void print_rows(const FitPlan **row, int n, FILE *to)
{
    int width = 7;
    for (int i = 0; i < n; i++)
        width = (int)strlen(added(row[i])) > width ? (int)strlen(added(row[i])) : width;
    fprintf(to, "\n  %10s %11s %11s %11s  %-*s  %s\n", "tokens/s", "device", "host", "sent", width,
            "add", "lost");
    for (int i = 0; i < n; i++)
        print_row(row[i], width, to);
}

static void print_over(const FitPlan *p, FILE *to)
{
    const bool device = p->device > p->limit;
    fprintf(to, "  %s: %s%s\n", added(p), text_bytes(device ? p->device : p->host),
            device ? text_print(", over by %s", text_bytes(p->device - p->limit))
                   : " of the host's memory");
}

static void print_card(const FitAsk *ask, const FitTable *t, FILE *to)
{
    const Card *card = fit_card(ask, t->over[0]);
    if (card)
        fprintf(to, "the first of them fits %s (%s)\n", card->name, card->about);
}

static void print_table(const FitAsk *ask, const FitTable *t, const char *command, bool all,
                        FILE *to)
{
    print_head(ask, t, to);
    if (!t->nall) {
        fprintf(to, "\nnothing fits; the nearest:\n");
        for (int i = 0; i < t->nover; i++)
            print_over(t->over[i], to);
        if (t->nover)
            print_card(ask, t, to);
        return;
    }
    print_rows(all ? t->all : t->row, all ? t->nall : t->nrows, to);
    if (t->next) {
        fprintf(to, "\nthe fastest that does not fit:\n");
        print_over(t->next, to);
    }
    fprintf(to, "\nbytes are those of a plan and its program, tokens/s an estimate; the first "
                "row:\n  gen %s\n", arguments(ask, command, t->row[0]));
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void add_plan(const FitAsk *ask, const char *command, const FitPlan *p, cJSON *list)
{
    cJSON *o = answer_item(list), *words = answer_list(o, "add");
    for (int i = 0; i < p->nwords; i++)
        answer_word(words, p->word[i]);
    answer_text(o, "arguments", arguments(ask, command, p));
    answer_bool(o, "fits", p->fits);
    answer_int(o, "device_bytes", p->device);
    answer_int(o, "host_bytes", p->host);
    answer_float(o, "sent_bytes", p->sent);
    answer_float(o, "tokens_per_second", p->tokens);
    answer_bool(o, "same_bits", p->exact);
    answer_text(o, "lost", *fit_lost(p) ? fit_lost(p) : NULL);
}

static void print_json(const FitAsk *ask, const FitTable *t, const char *command, bool all)
{
    cJSON *o = answer_new(), *list;
    const Card *card = t->nall || !t->nover ? NULL : fit_card(ask, t->over[0]);
    const FitPlan *any = t->nall ? t->all[0] : t->nover ? t->over[0] : NULL;
    answer_text(o, "name", t->config->name);
    answer_int(o, "ranks", t->ranks);
    answer_int(o, "batch_global", t->samples);
    if (!any || any->limit == INT64_MAX)
        answer_text(o, "device_bytes_limit", NULL);
    else
        answer_int(o, "device_bytes_limit", any->limit);
    answer_bool(o, "fits", t->nall > 0);
    answer_int(o, "plans", t->plans);
    list = answer_list(o, "rows");
    for (int i = 0; i < (all ? t->nall : t->nrows); i++)
        add_plan(ask, command, all ? t->all[i] : t->row[i], list);
    list = answer_list(o, "over");
    if (t->next)
        add_plan(ask, command, t->next, list);
    for (int i = 0; i < t->nover && !t->nall; i++)
        add_plan(ask, command, t->over[i], list);
    answer_text(o, "card_that_fits", card ? card->name : NULL);
    answer_print(o);
}

int fit_answer(FitAsk *ask, const char *command, const FitOptions *o)
{
    complete(ask, o);
    const FitTable t = fit_search(ask);
    if (answer_wanted())
        print_json(ask, &t, command, o->all);
    else
        print_table(ask, &t, command, o->all, stdout);
    return !t.nall;
}

int fit_run(const char *recipe, char **word, int n, const FitOptions *o)
{
    FitAsk ask = fit_ask(recipe, word, n);
    return fit_answer(&ask, text_shell(recipe), o);
}

/* ---- when gen refuses a plan ----------------------------------------------------------------- */

/* ", 1,234 tokens/s, without fp32 moments": of a plan that fits. */
static char *merits(const FitPlan *p)
{
    const char *lost = fit_lost(p);
    return text_print("%s%s, about %s tokens/s%s%s", text_bytes(p->device),
                      p->host ? text_print(" and %s of the host", text_bytes(p->host)) : "",
                      text_grouped((int64_t)p->tokens), *lost ? ", without " : "", lost);
}

static char *alternatives(const Config *c)
{
    char **word;
    const int n = config_overrides(c, &word);
    FitAsk ask = fit_ask(c->recipe, word, n);
    ask.samples = fit_samples(c);
    const FitTable t = fit_search(&ask);
    Str s = {0};
    for (int i = 0; i < t.nrows; i++)
        str_print(&s, "\n    fits:%s   (%s)", fit_words(t.row[i]), merits(t.row[i]));
    if (t.nrows)
        return s.text;
    for (int i = 0; i < t.nover; i++)
        if (t.over[i]->nwords)
            str_print(&s, "\n    nearest:%s   (%s, over by %s)", fit_words(t.over[i]),
                      text_bytes(t.over[i]->device),
                      text_bytes(t.over[i]->device - t.over[i]->limit));
    const Card *card = t.nover && strcmp(target_find(c->v[F_target].s)->backend, "cpu")
                           ? fit_card(&ask, t.over[0])
                           : NULL;
    str_print(&s, "\n    nothing fits: a smaller model or seq.max, or %s",
              card ? text_print("card=%s%s", card->name, fit_words(t.over[0]))
                   : "memory.limit_gib if there is more memory");
    return s.text;
}

void fit_refuse(const Graph *g, const Config *c)
{
    const Card *card = c ? config_card(c) : NULL;
    const char *fault = fit_fault(
        g, card ? text_print("card %s (target %s)", card->name, card->target) : NULL);
    if (fault)
        err(g->setting[SETTING_memory].loc, "%s%s", fault, c ? alternatives(c) : "");
}

const char *fit_remedy(const Config *c, int64_t bytes)
{
    char **word;
    const int words = config_overrides(c, &word);
    FitAsk ask = fit_ask(c->recipe, word, words);
    int n = 0;
    ask.samples = fit_samples(c);
    for (int i = 0; i < ask.nplace; i++)
        if (!strncmp(ask.place[i], "gpus=", 5))
            ask.place[n++] = ask.place[i];
    ask.nplace = n;
    if (config_card(c)) {
        ask.place[ask.nplace++] = text_copy("card=");
        ask.place[ask.nplace++] = text_print("target=%s", c->v[F_target].s);
    }
    ask.place[ask.nplace++] = limit_word(bytes);
    const FitTable t = fit_search(&ask);
    return t.nrows ? text_print("add%s; gen fit shows more", fit_words(t.row[0]))
                   : "gen fit: no other setting fits, either";
}
