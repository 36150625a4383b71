/* new.c -- `gen new` and `gen plan FOLDER`: recipes for Hugging Face model folders.
 *
 * In:    command-line words, a folder.
 * Out:   a recipe to edit, with the reason for each choice; or a table of what fits.
 * Method: values from the folder and the user are fixed; the rest follows printed rules and the
 *         planner: the first way to train of a list that fits. */
#include "gen/commands.h"
#include "gen/config/rules.h"
#include "gen/emit/emit.h"
#include "gen/lower/lower.h"
#include "gen/tools/answer.h"
#include "gen/tools/fit_search.h"
#include "gen/tools/new_ways.h"
#include "gen/tools/tools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/files/folder.h"

/* ---- the words ------------------------------------------------------------------------------- */

/* Options of commands.def: field for the value, a text or a bool. */
static const struct { const char *word, *wants; size_t at; } option[] = {
    {"--from", "folder", offsetof(NewOptions, from)},
    {"--target", "target", offsetof(NewOptions, target)},
    {"--lora", "rank", offsetof(NewOptions, lora)},
    {"--data", "file", offsetof(NewOptions, data)},
    {"--full", NULL, offsetof(NewOptions, full)},
    {"--force", NULL, offsetof(NewOptions, force)},
    {"--gpus", "number", offsetof(NewOptions, fit.gpus)},
    {"--host-gib", "number", offsetof(NewOptions, fit.host_gib)},
    {"--exact", NULL, offsetof(NewOptions, fit.exact)},
    {"--all", NULL, offsetof(NewOptions, fit.all)},
};
enum { OPTIONS = sizeof option / sizeof *option };

static NewOptions parse(int argc, char **argv, const char *command)
{
    NewOptions o = {.word = arena_new((size_t)argc * sizeof(char *) + 1)};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (*word != '-') {
            const char *equal = strchr(word, '='), *slash = strchr(word, '/');
            if (equal && (!slash || equal < slash))
                o.word[o.nwords++] = argv[i];
            else if (!o.file)
                o.file = word;
            else if (!o.from && folder_exists(word))
                err((Loc){0}, "%s: %s: is a folder; use --from %s", command, word,
                    text_shell(word));
            else
                err((Loc){0},
                    "%s: %s: a second file; the file is %s, and further words are field=value",
                    command, word, o.file);
            continue;
        }
        int k = 0;
        while (k < OPTIONS && strcmp(option[k].word, word))
            k++;
        if (k == OPTIONS && command_option(command, word))
            err((Loc){0}, "%s: %s is for a recipe, not for a folder", command, word);
        if (k == OPTIONS)
            command_unknown_option(command, word);
        if (!command_option(command, word))
            err((Loc){0}, "%s: %s is an option of gen new", command, word);
        char *at = (char *)&o + option[k].at;
        if (!option[k].wants)
            *(bool *)at = true;
        else if (i + 1 == argc || (argv[i + 1][0] == '-' && argv[i + 1][1] == '-'))
            err((Loc){0}, "%s: %s: needs a %s after it", command, word, option[k].wants);
        else
            *(const char **)at = argv[++i];
    }
    o.word = renamed_words(o.word, o.nwords);
    renamed_report();
    const char *name = new_given(&o, "card"), *fault = name && strcmp(name, "none") ?
        card_fault(name) : NULL;
    if (fault)
        err((Loc){0}, "%s: card: %s", command, fault);
    o.card = name ? card_find(name) : NULL;
    return o;
}

static void one_of_two(const NewOptions *o, const char *command, bool set, const char *option_word,
                       const char *field)
{
    if (set && new_given(o, field))
        err((Loc){0}, "%s: %s and %s=%s: one or the other", command, option_word, field,
            new_given(o, field));
}

static void check_words(const NewOptions *o, const char *command)
{
    one_of_two(o, command, o->target, "--target", "target");
    one_of_two(o, command, o->lora, "--lora", "lora.rank");
    one_of_two(o, command, o->full, "--full", "lora.rank");
    if (o->lora && o->full)
        err((Loc){0}, "%s: --lora and --full: one or the other", command);
    if (o->card && o->target && strcmp(o->card->target, o->target))
        err((Loc){0}, "%s: card %s is %s, but --target is %s; leave one of them out", command,
            o->card->name,
            o->card->target, o->target);
    for (int i = 0; i < o->nwords; i++)
        if (!strncmp(o->word[i], "model.", 6))
            err((Loc){0},
                "%s: %s: the folder sets the model's fields, and a program with other values could "
                "not load it", command, o->word[i]);
    int64_t at;
    if (new_given(o, "objective") && !choice_find(field_choices(F_objective),
                                                  new_given(o, "objective"), &at))
        err((Loc){0}, "%s: objective: must be one of %s, got %s", command,
            field_choices(F_objective), new_given(o, "objective"));
}

/* ---- the recipe's text ----------------------------------------------------------------------- */

/* True if a field of the folder can be omitted because it has its default; false if the default
 * depends on fields that users change, or the family has none. */
static bool droppable(const ModelFolder *m, const Config *c, int field)
{
    bool whole = c->v[F_model_hidden].i % c->v[F_model_heads].i == 0;
    return m->value[field] && *field_row[field].def && field != F_model_positions &&
           (field != F_model_ffn || m->family->ffn) && (field != F_model_head_dim || whole);
}

/* Fields that the recipe omits. */
static void drop_defaults(const ModelFolder *m, Config *c)
{
    Config *bare = arena_new(sizeof *bare);
    *bare = *c;
    for (int i = 0; i < NFIELDS; i++)
        if (droppable(m, c, i)) {
            const char *text = field_row[i].def;
            bare->v[i].set = false;
            if (*text != '?' && value_parse(field_row[i].type, &text, &bare->v[i]))
                bug("default of %s", field_row[i].path);
        }
    config_derive(bare);
    for (int i = 0; i < NFIELDS; i++)
        if (droppable(m, c, i) &&
            !strcmp(value_print(field_row[i].type, &c->v[i]),
                    value_print(field_row[i].type, &bare->v[i])))
            c->v[i].set = false;
    if (config_card(c))                      /* the card sets them */
        c->v[F_target].set = c->v[F_memory_limit_gib].set = false;
}

/* "section = { a = 1, b = 2 }," with the fields that are set, wrapped; nothing if none is. */
static void print_section(Str *s, const Config *c, const char *section)
{
    enum { WIDTH = 100 };
    size_t n = strlen(section), column = 0;
    Str all = {0};
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path;
        if (!c->v[i].set || strncmp(path, section, n) || path[n] != '.')
            continue;
        const char *item = text_print("%s = %s", path + n + 1,
                                      value_print(field_row[i].type, &c->v[i]));
        bool wrap = all.n && column + strlen(item) + 2 > WIDTH - 12;
        str_print(&all, "%s%s", !all.n ? "" : wrap ? ",\n        " : ", ", item);
        column = wrap ? strlen(item) : column + strlen(item) + 2;
    }
    if (!all.n)
        return;
    if (strchr(all.text, '\n'))
        str_print(s, "    %s = {\n        %s,\n    },\n", section, all.text);
    else
        str_print(s, "    %s = { %s },\n", section, all.text);
}

static void comment(Str *s, const char *text)
{
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        str_print(s, "-- %.*s\n", (int)strcspn(p, "\n"), p);
}

static const char *training(const Way *w)
{
    int64_t rank = w->c->v[F_lora_rank].i;
    return rank ? text_print("LoRA rank %" PRId64, rank) : "all weights";
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static const char *plan_line(const Way *w)
{
    return fit_limit(w->g) == INT64_MAX ? text_bytes(w->g->arena_bytes)
                                        : text_print("%s of %s", text_bytes(w->g->arena_bytes),
                                                     text_bytes(fit_limit(w->g)));
}

static const char *chat_line(const Ask *a)
{
    const ModelFolder *m = a->m;
    if (!m->tokenizer)
        return "none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE";
    if (m->tokenizer_fault)
        return text_print("tokenizer.json cannot be read: %s", m->tokenizer_fault);
    if (m->chat)
        return text_print("%s, by %s", m->chat, m->chat_why);
    return text_print("none: %s", m->chat_fault);
}

/* data.kind, and alternatives if conversations need another. */
static const char *data_line(const Ask *a, const Way *w)
{
    const char *kind = w->c->v[F_data_kind].s;
    bool stream = !strcmp(kind, "packed") && !a->data;
    return text_print("%s: data.kind%s", kind, stream ?
                      "; prompts and conversations need bfd or rows" : "");
}

/* How seq.max was chosen from the samples of --data, or that it can be; NULL: it does not follow
 * from samples. */
static const char *seq_line(const Ask *a, const Way *w)
{
    const SampleLengths *d = a->data;
    const int64_t tokens = w->c->v[F_seq_max].i, longer = d ? lengths_above(d->length, tokens) : 0;
    if (!d && names_listed(a->m->objective->kinds, "pairs") && !new_given(a->o, "seq.max"))
        return text_print("%" PRId64 " tokens for a prompt and its answer; --data FILE chooses it "
                          "from your data", tokens);
    if (!d || !d->samples)
        return NULL;
    const char *found =
        text_print("of %s sample%s in %s the longest has %s tokens, 95 of 100 at most %s",
                   text_grouped(d->samples), d->samples == 1 ? "" : "s", d->file,
                   text_grouped(d->longest), text_grouped(d->most));
    return longer ? text_print("%" PRId64 ": %s; %s of them will be cut", tokens, found,
                               text_grouped(longer))
                  : text_print("%" PRId64 ": %s", tokens, found);
}

static const char *ids_line(const ModelFolder *m)
{
    Str s = {0};
    if (m->bos >= 0)
        str_print(&s, "begin of text %d", m->bos);
    if (m->eos >= 0)
        str_print(&s, "%send of text %d", s.n ? ", " : "", m->eos);
    return s.n ? s.text : NULL;
}

/* Text of one of the objective's rules; NULL: none. */
static const char *rule_text(const Way *w, const char *(*rule)(const Config *c))
{
    return rule ? rule(w->c) : NULL;
}

static const char *mark_line(const Way *w)
{
    return rule_text(w, config_rules(w->c)->new_token);
}

static const char *head_line(const Ask *a)
{
    return a->m->lacks_added ? "none in the folder: the recipe adds one and trains it" : NULL;
}

static char *recipe_text(const Ask *a, const Way *w)
{
    const ModelFolder *m = a->m;
    Config *c = arena_new(sizeof *c);
    *c = *w->c;
    drop_defaults(m, c);
    Str s = {0};
    const Holdings h = measure_holdings(w->g);
    comment(&s,
            text_print("%s of %s, written by gen new; start it with --init-from of that folder.",
                       *m->class ? text_comment(m->class) : m->family->name,
                       text_comment(m->path)));
    comment(&s, text_print("Planned: %s a rank; %s parameters, %s of them trained.", plan_line(w),
                           text_grouped(h.parameters), text_grouped(h.trained)));
    if (*m->objective->kinds)
        comment(&s, text_print("Chat template: %s.", text_comment(chat_line(a))));
    if (ids_line(m))
        comment(&s, text_print("Tokens: %s, of the tokenizer; gen pack and run.sh take them from "
                               "the folder.", ids_line(m)));
    if (mark_line(w))
        comment(&s, text_print("Step mark: %s.", text_comment(mark_line(w))));
    if (head_line(a))
        comment(&s, text_print("Score head: %s.", head_line(a)));
    if (!m->weights)
        comment(&s, "The folder had no weights: their shapes are unchecked.");
    if (m->unsaid)
        comment(&s, text_print("Unsaid: %s.", m->unsaid));
    if (m->notes.n)
        comment(&s, text_print("Of config.json, where it shapes nothing:\n%s", m->notes.text));
    const char *about = text_print("%s, %s, %s", text_comment(base_of(m->path)), training(w),
                                   c->v[F_precision].s);
    str_print(&s, "return {\n    about = %s,\n", value_print(FT_STRING, &(FieldValue){.s = about}));
    for (int i = 0; i < NFIELDS; i++)
        if (c->v[i].set && !strchr(field_row[i].path, '.') && i != F_about)
            str_print(&s, "    %s = %s,\n", field_row[i].path,
                      value_print(field_row[i].type, &c->v[i]));
    print_section(&s, c, "model");
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path;
        size_t n = strcspn(path, ".");
        bool first = path[n] && (i == 0 || strncmp(field_row[i - 1].path, path, n + 1));
        if (first && strncmp(path, "model.", 6))
            print_section(&s, c, text_print("%.*s", (int)n, path));
    }
    Str run = {0};
    for (int i = 0; i < c->nrun; i++)
        if (!c->run_loc[i].file)             /* set on the command line */
            str_print(&run, "%s%s = %s", run.n ? ", " : "", c->run_name[i],
                      run_flag[run_flag_find(c->run_name[i])].type == FT_STRING
                          ? value_print(FT_STRING, &(FieldValue){.s = c->run_value[i]}) :
                              c->run_value[i]);
    if (run.n)
        str_print(&s, "    run = { %s },\n", run.text);
    str_print(&s, "}\n");
    return s.text;
}

/* ---- gen new --------------------------------------------------------------------------------- */

static void check_file(const NewOptions *o)
{
    struct stat st;
    size_t n = o->file ? strlen(o->file) : 0;
    if (!o->file)
        err((Loc){0}, "new: name the file to write: gen new FILE.lua --from FOLDER");
    path_check("new", o->file);
    if (n < 5 || strcmp(o->file + n - 4, ".lua") || o->file[n - 5] == '/')
        err((Loc){0}, "new: %s: the name must end in .lua, for example %s.lua", o->file,
            n && o->file[n - 1] != '/' && !strstr(o->file, ".lua") ? o->file : "mine");
    if (!stat(o->file, &st) && !S_ISREG(st.st_mode))
        err((Loc){0}, "new: %s: exists and is not a file; give another name", o->file);
    if (!stat(o->file, &st) && !o->force)
        err((Loc){0}, "new: %s: exists; give another name, or --force to overwrite it",
            o->file);
}

/* Checks that the written file gives the planned recipe. */
static void check_written(const NewOptions *o, const Config *planned)
{
    Config *c = config_fill(recipe_load(o->file, NULL, 0), o->file);
    check_config(c);
    for (int i = 0; i < NFIELDS; i++)
        if (i != F_name && i != F_about && field_applies(c, i) &&
            strcmp(value_print(field_row[i].type, &c->v[i]),
                   value_print(field_row[i].type, &planned->v[i])))
            bug("%s: %s is not as planned", o->file, field_row[i].path);
}

static void row(const char *what, const char *text)
{
    printf("  %-10s %s\n", what, text);
}

static void new_answer(const NewOptions *o, const Ask *a, const Way *w)
{
    const ModelFolder *m = a->m;
    const Holdings h = measure_holdings(w->g);
    const bool data = *m->objective->kinds;
    cJSON *answer = answer_new();
    answer_text(answer, "file", o->file);
    answer_text(answer, "folder", m->path);
    answer_recipe(answer, w->g, w->c);
    answer_memory(answer, w->g, &h);
    answer_text(answer, "target_why", a->target_why);
    answer_text(answer, "precision_why", a->precision_why);
    answer_text(answer, "adapter", w->c->v[F_lora_rank].i ? "lora" : "none");
    answer_int(answer, "lora_rank", w->c->v[F_lora_rank].i);
    answer_text(answer, "recompute", w->c->v[F_memory_recompute].s);
    answer_bool(answer, "weights", m->weights);
    answer_int(answer, "samples", a->data ? a->data->samples : 0);
    answer_int(answer, "longest_sample_tokens", a->data ? a->data->longest : 0);
    answer_int(answer, "samples_cut",
               a->data ? lengths_above(a->data->length, w->c->v[F_seq_max].i) : 0);
    answer_text(answer, "chat", data && m->tokenizer && !m->tokenizer_fault ? m->chat : NULL);
    cJSON *notes = answer_list(answer, "notes");
    for (const char *p = m->notes.n ? m->notes.text : ""; *p; p += strcspn(p, "\n") + 1)
        answer_word(notes, text_print("%.*s", (int)strcspn(p, "\n"), p));
    answer_print(answer);
}

int new_main(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        command_help(command_find("new"), argc < 2 ? stderr : stdout);
        return argc < 2;
    }
    NewOptions o = parse(argc, argv, "new");
    check_file(&o);
    if (!o.from)
        err((Loc){0},
            "new: needs --from FOLDER, a Hugging Face model's folder: gen new %s --from FOLDER",
            o.file);
    check_words(&o, "new");
    ModelFolder *m = model_folder_read(o.from, text_print("gen new %s --from", text_shell(o.file)),
                                             new_given(&o, "objective"));
    Ask a = new_ask(m, &o, "new");
    Way w = new_choose(&a);
    char *text = recipe_text(&a, &w);
    file_save(o.file, text, strlen(text));
    check_written(&o, w.c);
    if (answer_wanted()) {
        new_answer(&o, &a, &w);
        return 0;
    }
    printf("%s: %s, %s parameters, of %s\n", o.file, m->family->name, text_grouped(a.parameters),
           m->path);
    row("objective", text_print("%s: %s", m->objective->name, m->objective->about));
    row("target", text_print("%s: %s", a.target->name, a.target_why));
    row("precision", text_print("%s: %s", a.precision, a.precision_why));
    row("training", text_print("%s%s: %s", training(&w), w.recompute ? ", blocks computed again" :
                               "",
                               o.lora || o.full || new_given(&o, "lora.rank") ? "as given"
                               : m->nf4            ? "the weights are quantised to NF4"
                               : w.lora            ? "all weights do not fit"
                               : new_takes_adapters(m) ? "they fit; --lora R trains adapters"
                                                   : "they fit"));
    row("batch", text_print("%" PRId64 " of %" PRId64 " tokens: batch.micro%s",
                            w.c->v[F_batch_micro].i,
                            w.c->v[F_seq_max].i, new_fixed(m, F_seq_max) ? "" : ", seq.max"));
    if (seq_line(&a, &w))
        row("seq.max", seq_line(&a, &w));
    row("memory", text_print("%s a rank planned", plan_line(&w)));
    if (*m->objective->kinds) {
        row("data", data_line(&a, &w));
        row("chat", chat_line(&a));
    }
    if (mark_line(&w))
        row("mark", mark_line(&w));
    if (head_line(&a))
        row("head", head_line(&a));
    if (!m->weights)
        row("weights", "none in the folder: their shapes are unchecked");
    if (m->unsaid)
        row("unsaid", m->unsaid);
    for (const char *p = m->notes.n ? m->notes.text : ""; *p; p += strcspn(p, "\n") + 1)
        row("told", text_print("%.*s", (int)strcspn(p, "\n"), p));
    const char *out = text_shell(text_print("out/%s", w.c->name)), *from = text_shell(m->path),
               *data = o.data ? text_shell(o.data) : *m->objective->kinds ? "DATA.jsonl" : "DATA";
    const char *options = rule_text(&w, config_rules(w.c)->pack_options);
    printf("\nnext:\n  gen %s && make -C %s\n", text_shell(o.file), out);
    if (m->tokenizer && !m->tokenizer_fault && *m->objective->kinds)
        printf("  gen pack --show 2 --tokenizer %s%s%s %s\n", text_shell(m->tokenizer),
               m->template && !m->chat ? " --chat NAME" : "", options ? text_print(" %s", options) :
                   "", data);
    printf("  %s %s\n", text_shell(text_print("out/%s/run.sh", w.c->name)),
           emit_required_flags(w.g, from, data));
    return 0;
}

/* ---- gen plan FOLDER ------------------------------------------------------------------------- */

bool new_is_folder(int argc, char **argv)
{
    bool folder = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--from") || !strcmp(argv[i], "--target") ||
            !strcmp(argv[i], "--full"))
            return true;
        if (*argv[i] != '-' && !folder)
            folder = folder_exists(argv[i]) && (strchr(argv[i], '/') || !recipe_known(argv[i]));
    }
    return folder;
}

/* A row of the table: largest micro-batch of a way to train, or what the smallest would need. list
 * NULL: as text. */
static void plan_row(const Ask *a, Way w, cJSON *list)
{
    const char *tokens = w.tokens ? text_print("%" PRId64, w.tokens) : "-";
    bool fit = new_fits(a, &w);
    const int64_t most = fit ? fit_largest_micro(w.g, w.c) : 0, least = w.g->arena_bytes;
    const char *differs = w.differs;
    w.samples = most;
    fit = most && new_fits(a, &w);
    const char *way = w.lora ? text_print("LoRA rank %" PRId64, a->rank) : "all weights";
    const char *recompute = w.recompute ? "block" : "none";
    if (!list) {
        printf("  %-14s %-10s %-10s %8s %12s   %s\n", way, a->precision, recompute, tokens,
               fit ? text_print("%" PRId64, most) : "-",
               fit       ? text_bytes(w.g->arena_bytes)
               : differs ? differs
                         : text_print("%s for one", text_bytes(least)));
        return;
    }
    cJSON *o = answer_item(list);
    answer_text(o, "adapter", w.lora ? "lora" : "none");
    answer_int(o, "lora_rank", w.lora ? a->rank : 0);
    answer_text(o, "precision", a->precision);
    answer_text(o, "recompute", recompute);
    answer_int(o, "sequence_tokens", w.c->v[F_seq_max].i);
    answer_bool(o, "fits", fit);
    answer_int(o, "batch_micro", fit ? most : 0);
    answer_int(o, "device_bytes", fit ? w.g->arena_bytes : least);
    answer_text(o, "why", differs);
}

static void plan_head(const ModelFolder *m, const Ask *a, int64_t limit)
{
    printf("%s: %s, %s parameters, objective %s\n", m->path, m->family->name,
           text_grouped(a->parameters),
           m->objective->name);
    printf("target %s (%s), %s a rank; precision %s (%s)\n", a->target->name, a->target_why,
           limit == INT64_MAX ? "as much as there is" : text_bytes(limit), a->precision,
               a->precision_why);
    if (!m->weights)
        printf("no weights in the folder: their shapes are unchecked\n");
    printf("\n");
    printf("  %-14s %-10s %-10s %8s %12s   %s\n", "training", "precision", "recompute", "seq.max",
           "batch.micro",
           "memory of a rank");
}

int new_plan_main(int argc, char **argv)
{
    NewOptions o = parse(argc, argv, "plan");
    if (o.file && o.from)
        err((Loc){0}, "plan: %s and --from %s: one or the other", o.file, o.from);
    const char *word = o.from ? o.from : o.file;
    if (!word)
        err((Loc){0}, "plan: needs a model's folder: gen plan FOLDER --card NAME");
    if (o.file && !folder_exists(o.file) && recipe_known(o.file))
        err((Loc){0},
            o.full ? "plan: --full is for models' folders; of a recipe: gen plan %s lora.rank=0"
                   : "plan: --target is for models' folders; of a recipe: gen plan %s target=NAME",
            o.file);
    check_words(&o, "plan");
    o.file = NULL;
    ModelFolder *m = model_folder_read(word, "gen plan", new_given(&o, "objective"));
    Ask a = new_ask(m, &o, "plan");
    Way probe = {.tokens = a.tokens, .samples = 1};
    Config *c = new_config(&a, &probe);
    int64_t limit = fit_limit(graph_build(c));
    cJSON *answer = answer_wanted() ? answer_new() : NULL;
    if (answer) {
        answer_text(answer, "folder", m->path);
        answer_text(answer, "family", m->family->name);
        answer_int(answer, "parameters", a.parameters);
        answer_text(answer, "objective", m->objective->name);
        answer_text(answer, "target", a.target->name);
        answer_text(answer, "card", o.card ? o.card->name : NULL);
        answer_text(answer, "precision", a.precision);
        answer_bool(answer, "weights", m->weights);
        if (limit == INT64_MAX)
            answer_text(answer, "device_bytes_limit", NULL);
        else
            answer_int(answer, "device_bytes_limit", limit);
    } else
        plan_head(m, &a, limit);
    cJSON *ways = answer ? answer_list(answer, "ways") : NULL;
    int64_t length[3] = {a.tokens, 0, 0};
    int n = 1;
    if (a.tokens && !new_given(&o, "seq.max") && m->value[F_model_positions])
        for (int64_t longer = 4 * a.tokens; n < 3 && longer <= new_positions(m); longer *= 4)
            length[n++] = longer;
    for (int lora = 0; lora < 2; lora++)
        for (int i = 0; i < n; i++)
            for (int recompute = 0; recompute < 2; recompute++)
                if (lora ? new_takes_adapters(m) && !o.full : !o.lora && !m->nf4)
                    plan_row(&a, (Way){.lora = lora, .recompute = recompute, .tokens = length[i],
                                       .samples = 1}, ways);
    if (answer) {
        answer_print(answer);
        return 0;
    }
    printf("\na recipe: gen new FILE.lua --from %s%s\n", text_shell(m->path),
           o.card     ? text_print(" --card %s", o.card->name)
           : o.target ? text_print(" --target %s", o.target)
                      : "");
    return 0;
}

/* ---- gen fit FOLDER -------------------------------------------------------------------------- */

static Config *make_from_folder(const void *of, char **word, int n)
{
    Ask a = *(const Ask *)of;
    NewOptions o = *a.o;
    o.word = word;
    o.nwords = n;
    o.card = new_given(&o, "card") ? card_find(new_given(&o, "card")) : NULL;
    a.o = &o;
    return new_config(&a, &(Way){.lora = a.m->nf4, .tokens = a.tokens, .samples = NEW_SAMPLES});
}

int new_fit_main(int argc, char **argv)
{
    NewOptions o = parse(argc, argv, "fit");
    if (!o.file || !folder_exists(o.file))
        err((Loc){0}, "fit: --target is for models' folders; of a recipe: gen fit %s target=NAME",
            o.file ? o.file : "RECIPE");
    check_words(&o, "fit");
    ModelFolder *m = model_folder_read(o.file, "gen fit", new_given(&o, "objective"));
    Ask a = new_ask(m, &o, "fit");
    FitAsk ask = {.make = make_from_folder, .of = &a};
    /* which gen new would choose itself */
    const char *usual[] = {text_print("batch.micro=%d", NEW_SAMPLES), "batch.accum=1",
                           "memory.recompute=none"};
    fit_ask_words(&ask, o.word, o.nwords);
    const bool batch = new_given(&o, "batch.micro") || new_given(&o, "batch.global") ||
                       new_given(&o, "batch.accum");
    for (int i = batch ? 2 : 0; i < 3; i++)
        if (!new_given(&o, text_print("%.*s", (int)strcspn(usual[i], "="), usual[i])))
            ask.place[ask.nplace++] = text_copy(usual[i]);
    return fit_answer(&ask, text_print("new FILE.lua --from %s", text_shell(m->path)), &o.fit);
}
