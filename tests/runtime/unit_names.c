/* unit_names.c -- every row of aliases.def as a word of a program's command line. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/run/flags.h"
#include "../../runtime/files/names.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 6, LINE = 4000 };

/* A program that trains adapters on a base in 4 bits, and one with a small optimiser. */
static const Made four_bits = {
    .words = "recipes/x.lua lora.rank=8 lora.base=nf4",
    .fields = { "lora.rank=8\nlora.base=\"nf4\"\ntarget=\"cpu\"\nprecision=\"bf16\"\n" }
};
static const Made small = {
    .words = "recipes/x.lua optim.moments=8bit run.clip=0",
    .fields = { "lora.rank=0\nlora.base=\"same\"\ntarget=\"cpu\"\nprecision=\"bf16\"\nbatch.accum=1\n",
                "optim.moments=\"8bit\"\noptim.when=\"backward\"\noptim.master=\"none\"\n" }
};

/* A program without any feature. */
static const Made plain = {
    .words = "recipes/x.lua gpus=1 seq.max=8",
    .fields = { "lora.rank=0\ngpus=1\ntarget=\"cpu\"\nprecision=\"fp32\"\nmemory.recompute=\"none\"\nmemory.zero=0\n",
                "seq.max=8\nbatch.micro=4\nlora.targets={\"q_proj\", \"v_proj\"}\nlora.rslora=false\n"
                "model.tied=false\ncheckpoint.async=false\n" }
};

/* Parses the words in a process of its own; its line goes to text. Returns the exit code. */
static int refused_by(const Made *made, char text[LINE], char **words, int n)
{
    int ends[2], status = -1;
    char *argv[WORDS + 1] = { (char[]){ "train" } };
    memcpy(argv + 1, words, (size_t)n * sizeof *words);
    fflush(stdout);
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        Flags f;
        dup2(ends[1], 2);
        flags_parse(&f, made, NULL, n + 1, argv);
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t k; got < LINE - 1 && (k = read(ends[0], text + got, LINE - 1 - got)) > 0;)
        got += (size_t)k;
    text[got] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int refused(char text[LINE], char **words, int n)
{
    return refused_by(&plain, text, words, n);
}

/* A line for what is wrong only: rows are many. */
#define must(good, ...) \
    do { \
        if (!(good)) \
            check(false, __VA_ARGS__); \
    } while (0)

/* Two values that flag k takes and that differ. */
static void two_values(int k, char **one, char **other)
{
    static char *const pairs[][2] = {
        { "3", "4" },     { "0.25", "0.5" }, { "cosine", "linear" },
        { "true", "false" }, { "text", "imdb" }, { "random", "low_confidence" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        Flags f = { 0 };
        char *a = flags_set(&f, k, pairs[i][0]), *b = flags_set(&f, k, pairs[i][1]);
        bool good = !a && !b;
        free(a), free(b);
        if (good) {
            *one = pairs[i][0];
            *other = pairs[i][1];
            return;
        }
    }
}

static void alias(const Alias *row)
{
    int k = flags_find(row->ours);
    char *one = NULL, *other = NULL, text[LINE];
    must(k >= 0 && flags_find(row->name) < 0, format("alias %s: a flag of ours", row->name), "%s",
          row->ours);
    if (k < 0)
        return;
    two_values(k, &one, &other);
    char *theirs = format("--%s", row->name), *ours = format("--%s", row->ours);
    for (char *c = theirs; *c; c++)
        *c = *c == '_' ? '-' : *c;
    Flags a, b, c;
    flags_parse(&a, &plain, NULL, 3, (char *[]){ "train", theirs, one });
    flags_parse(&b, &plain, NULL, 2, (char *[]){ "train", format("--%s=%s", row->name, one) });
    flags_parse(&c, &plain, NULL, 5, (char *[]){ "train", ours, one, theirs, one });
    char *want = format("%s", flags_repeats(k) ? one : flags_text(&c, k));  /* c has it twice */
    bool same = a.given[k] && b.given[k] && strcmp(flags_text(&a, k), want) == 0
                && strcmp(flags_text(&b, k), want) == 0;
    must(same, format("alias %s sets --%s", theirs, row->ours), "%s, %s", flags_text(&a, k),
          flags_text(&b, k));
    int code = refused(text, (char *[]){ ours, one, theirs, other }, 4);
    must(code == EXIT_CONFIG && strstr(text, "are the same flag"),
          format("alias %s against --%s", theirs, row->ours), "code %d: %s", code, text);
}

static void always(const Alias *row, char *name)
{
    const bool yes = !strcmp(row->value, "true");
    char text[LINE], *value = (char *)(yes ? "true" : "False");
    Flags f, bare;
    flags_parse(&f, &plain, NULL, 5, (char *[]){ "train", name, value, "--lr", "0.5" });
    if (yes)
        flags_parse(&bare, &plain, NULL, 4, (char *[]){ "train", name, "--lr", "0.5" });
    must(f.lr == 0.5 && (!yes || bare.lr == 0.5), format("alias %s: what always holds", name), "%g", f.lr);
    int code = refused(text, (char *[]){ name, yes ? "false" : "true" }, 2);
    must(code == EXIT_CONFIG && strstr(text, row->note), format("alias %s: what never holds", name),
         "code %d: %s", code, text);
}

static bool is_same(const Alias *row)
{
    static const char *const names[] = {
#define SAME(theirs, field) theirs,
#include "../../runtime/files/aliases.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], row->name))
            return true;
    return false;
}

/* The line of a name without a value; NULL: it may be accepted. */
static char *line_of(const Alias *row)
{
    const char *on = alias_meaning_of(row, "true");
    char *flag = format("%s", row->ours);
    for (char *c = flag; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const bool of_flag = flags_find(row->ours) >= 0;
    switch (row->kind) {
    case ALIAS_LINE:
        return format("write --%s %s (", flag, alias_value(row, NULL));
    case ALIAS_FIELD:
        return names_same(row->value, "true") ? format(" %s=true && make", row->ours)
                                              : format("--%s: needs a value, such as %s", row->name, row->value);
    case ALIAS_NONE:
        return format("--%s: not supported: %s", row->name, row->note);
    case ALIAS_MEANS:
        if (!on)
            return of_flag ? format("write --%s %s (", flag, row->value) : format(" %s=", row->ours);
        return *on == '?' ? of_flag ? format("give the number as --%s N", flag) : format(" %s=", row->ours) : NULL;
    default:
        return on && !*on ? NULL : format("%s", is_same(row) ? "needs a value" : row->note);
    }
}

/* Kinds other than aliases: a name alone, one with a value, one that is off. */
static void hint(const Alias *row)
{
    char text[LINE], *name = format("--%s", row->name), *want = line_of(row);
    if (row->kind == ALIAS_ALWAYS) {
        always(row, name);
        return;
    }
    int code = refused(text, &name, 1);
    must(want ? code == EXIT_CONFIG && strstr(text, want) && strchr(text, '\n') == text + strlen(text) - 1
              : code == 0 || strstr(text, " && make") || strstr(text, "fp16 needs a GPU"),
         format("alias %s: what to do", name), "code %d, want \"%s\": %s", code, want ? want : "", text);
    if (row->kind == ALIAS_NONE)
        must(refused(text, (char *[]){ name, "False" }, 2) == 0, format("alias %s False: accepted", name), "%s",
             text);
    if (row->kind != ALIAS_FIELD || !strspn(row->value, "0123456789"))
        return;
    code = refused(text, (char *[]){ name, "7" }, 2);
    must(code == EXIT_CONFIG && strstr(text, format(" %s=7 && make", row->ours)) && !strstr(text, "gpus=1 gpus="),
         format("alias %s 7: the line to type", name), "%s", text);
}

/* A value of theirs against plain: what each line has, or "": it is accepted. */
static void values(void)
{
    static const struct { char *name, *given, *says; } row[] = {
        { "--finetuning_type", "full", "" },
        { "--finetuning_type", "lora", "seq.max=8 lora.rank=N && make" },
        { "--bf16", "yes", "precision=bf16 && make" },
        { "--bf16", "false", "" },
        { "--no_fp16", "--lr=1", "" },
        { "--fp16", "true", "--fp16 true: fp16 needs a GPU, and this program is for target=cpu" },
        { "--dtype", "float16", "fp16 needs a GPU" },
        { "--bnb_4bit_compute_dtype", "float16", "fp16 needs a GPU" },
        { "--dtype", "torch.float32", "" },
        { "--precision", "no", "" },
        { "--precision", "Float32", "" },
        { "--max_length", "8.0", "" },
        { "--max_length", "16", "gen recipes/x.lua gpus=1 seq.max=16 && make" },
        { "--test_batch_size", "4", "" },
        { "--eval_batch_size", "5", "batch.micro=5 && make (validation takes batch.micro sequences at a time" },
        { "--seq.max", "8", "" },
        { "--seq.max=9", "--lr=1", "--seq.max 9: fixed when" },
        { "--lora_target_modules", "v_proj,q_proj", "" },
        { "--lora_target_modules", "v_proj", "lora.targets=v_proj" },
        { "--save_strategy", "no", "" },
        { "--save_strategy", "steps", "" },
        { "--eval_strategy", "steps", "--eval_strategy steps: give the number as --eval-every N" },
        { "--eval_strategy", "epoch", "" },
        { "--eval_strategy", "sometimes", "write --eval-every N" },
        { "--warmup_ratio", "0.03", "" },
        { "--warmup_ratio", "3", "write --warmup 0.03" },
        { "--val_set_size", "0.05", "" },
        { "--val_set_size", "200", "write --eval-share 0.1 (below 1" },
        { "--do_sample", "true", "" },
        { "--decay_lr", "False", "" },
        { "--apply_lora_to_mlp", "true", "lora.targets=gate_proj,up_proj,down_proj" },
        { "--distributed_type", "MULTI_GPU", "gpus=N" },
        { "--distributed_type", "NO", "" },
        { "--distributed_type", "FSDP", "memory.zero=3" },
        { "--zero_stage", "0", "" },
        { "--zero_stage", "1", "memory.zero=0; to change it: gen recipes/x.lua gpus=1 seq.max=8 memory.zero=1" },
        { "--zero_stage", "3", "memory.zero=0; to change it: gen recipes/x.lua gpus=1 seq.max=8 memory.zero=3" },
        { "--use_distributed_optimizer", "true", "memory.zero=1 && make" },
        { "--use_distributed_optimizer", "false", "" },
        { "--fsdp", "full_shard", "memory.zero=3" },
        { "--deepspeed", "ds.json", "not supported: memory.zero=1 divides" },
        { "--num_processes", "8", "gen recipes/x.lua seq.max=8 gpus=8 && make" },
        { "--num_gpus", "1", "" },
        { "--device", "cpu", "" },
        { "--device", "cuda", "target=NAME" },
        { "--load_in_4bit", "false", "" },
        { "--load_in_4bit", "true", "seq.max=8 lora.base=nf4 lora.rank=16 && make" },
        { "--qlora", "--lora_r=8", "seq.max=8 lora.base=nf4 lora.rank=8 && make" },
        { "--optimizer_in_bwd", "true", "seq.max=8 optim.when=backward run.clip=0 batch.accum=1 && make" },
        { "--optimizer_in_bwd", "false", "" },
        { "--stochastic_rounding", "true", "optim.master=none precision=bf16 && make" },
        { "--optim", "adamw_torch", "" },
        { "--optim", "adamw_bnb_8bit", "optim.moments=8bit && make" },
        { "--bnb_4bit_quant_type", "nf4", "" },
        { "--bnb_4bit_quant_type", "fp4", "lora.base=nf4 is NF4; fp4 is not supported" },
        { "--no_lora", "--lora_r=8", "--no_lora and --lora_r 8 contradict each other" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[LINE];
        int code = refused(text, (char *[]){ row[i].name, row[i].given }, 2);
        must(*row[i].says ? code == EXIT_CONFIG && strstr(text, row[i].says) : code == 0,
             format("alias %s %s", row[i].name, row[i].given), "want \"%s\", code %d: %s", row[i].says, code, text);
    }
}

/* Values that a program with that feature contradicts. */
static void contradictions(void)
{
    static const struct { const Made *made; char *name, *given, *says; } row[] = {
        { &four_bits, "--load_in_4bit", "false", "gen recipes/x.lua lora.rank=8 lora.base=same && make" },
        { &four_bits, "--qlora=false", "--lr=1", "lora.base=same && make" },
        { &four_bits, "--use_4bit", "no", "lora.base=same && make" },
        { &four_bits, "--no_lora", "--use_4bit=no", "gen recipes/x.lua lora.rank=0 && make" },
        { &four_bits, "--use_4bit=no", "--no_lora", "gen recipes/x.lua lora.rank=0 && make" },
        { &four_bits, "--load_in_4bit", "true", "" },
        { &four_bits, "--bnb_4bit_quant_type", "fp4", "fp4 is not supported\n" },
        { &small, "--load_in_4bit", "false", "" },
        { &small, "--optimizer_in_bwd", "false", "run.clip=0 optim.when=step && make\n" },
        { &small, "--optim", "adamw_torch", "gen recipes/x.lua run.clip=0 optim.moments=fp32 && make" },
        { &small, "--optim", "adamw_8bit", "" },
        { &small, "--stochastic_rounding", "false", "optim.master=remainder && make\n" },
        { &small, "--stochastic_rounding", "true", "" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[LINE];
        int code = refused_by(row[i].made, text, (char *[]){ row[i].name, row[i].given }, 2);
        must(*row[i].says ? code == EXIT_CONFIG && strstr(text, row[i].says) : code == 0,
             format("%s %s: against %s", row[i].name, row[i].given, row[i].made->words), "want \"%s\", code %d: %s",
             row[i].says, code, text);
    }
}

/* Settings made by accepted names, with their meaning in transformers. */
static void meanings(void)
{
    static const struct { char *a, *b, *c; const char *flag, *value; } row[] = {
        { "--eval_strategy", "epoch", "--lr=1", "eval_every", "epoch" },
        { "--eval_strategy=steps", "--eval_steps", "7", "eval_every", "7" },
        { "--eval_strategy=steps", "--logging_steps", "9", "eval_every", "9" },
        { "--save_strategy", "no", "--lr=1", "save_every", "0" },
        { "--save_strategy=best", "--lr", "1", "keep_best", "true" },
        { "--load_best_model_at_end", "--lr", "1", "keep_best", "true" },
        { "--scale_lr", "False", "--lr=1", "lr_scale", "none" },
        { "--dataset_keep_in_memory", "--lr", "1", "streaming", "false" },
        { "--warmup_ratio", "0.03", "--lr=1", "warmup", "0.03" },
        { "--wandb_run_name", "a", "--lr=1", "run_name", "a" },
        { "--data", "a", "b", "data", "a,b" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Flags f;
        flags_parse(&f, &plain, NULL, 4, (char *[]){ "train", row[i].a, row[i].b, row[i].c });
        char *is = flags_text(&f, flags_find(row[i].flag));
        must(f.given[flags_find(row[i].flag)] && strcmp(is, row[i].value) == 0,
             format("alias %s %s: sets %s", row[i].a, row[i].b, row[i].flag), "%s", is);
    }
}

/* Names of earlier releases: taken as today's, with a line; refused together with it. */
static void renames(void)
{
    for (int i = 0; i < renamed_rows; i++) {
        const Renamed *r = &renamed_row[i];
        char text[LINE], *fields = format("%s=\"a\"\nlast=1\n", r->now), *was = format("%s=\"a\"\nlast=1\n", r->before);
        char *is = renamed_lines(was), *before = format("--%s", r->before), *now = format("--%s", r->now);
        must(strcmp(is, fields) == 0, format("renamed %s: a line of a file", r->before), "%s", is);
        const Made made = { .words = "x.lua", .fields = { fields } };
        Flags f;
        int code;
        if (strchr(r->now, '.')) {
            flags_parse(&f, &made, NULL, 3, (char *[]){ "train", before, "a" });
            must(f.remark[0] && strcmp(f.remark[0], format("renamed: --%s is now --%s", r->before, r->now)) == 0,
                 format("renamed %s: taken", r->before), "%s", f.remark[0] ? f.remark[0] : "no line");
        } else {                                /* a flag, which this program may not have */
            code = refused(text, (char *[]){ before, "a" }, 2);
            must(!code || (strstr(text, r->now) && !strstr(text, r->before)), format("renamed %s: taken", r->before),
                 "code %d: %s", code, text);
        }
        code = refused(text, (char *[]){ format("%s=a", before), now, "a" }, 3);
        must(code == EXIT_CONFIG && strstr(text, "is the old name of"), format("renamed %s: both", r->before),
             "code %d: %s", code, text);
    }
    char *same = renamed_lines("a=1\nb={\"x\", \"y\"}\nc=\"\"\n\nno line");
    must(strcmp(same, "a=1\nb={\"x\", \"y\"}\nc=\"\"\n\nno line") == 0, "renamed: other lines stay", "%s", same);
}

/* Readers of flags: each word names a command, or a kind of commands. */
static void readers(void)
{
    static const struct {
        const char *name, *readers;
    } row[] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc) {#name, readers},
#include "../../runtime/run/flags.def"
    };
    enum { ROWS = sizeof row / sizeof *row };
    char *known = format("any|train|run|weights");
    for (int i = 0; i < ROWS; i++) {
        char *longer = format("%s|%s", known, row[i].name);
        free(known);
        known = longer;
    }
    for (int i = 0; i < ROWS; i++)
        for (const char *p = row[i].readers; *p; p += strcspn(p, "|"), p += *p == '|') {
            char *word = format("%.*s", (int)strcspn(p, "|"), p);
            must(names_listed(known, word), format("readers of --%s", row[i].name), "no command %s", word);
            free(word);
        }
    free(known);
}

void test_names(void)
{
    int before = failures, aliases = 0;
    for (int i = 0; i < alias_rows; i++) {
        must(alias_find(alias_row[i].name) == &alias_row[i],
              format("alias %s: one row", alias_row[i].name), "there are two");
        if (alias_row[i].kind == ALIAS_FLAG)
            alias(&alias_row[i]), aliases++;
        else
            hint(&alias_row[i]);
    }
    values();
    contradictions();
    meanings();
    renames();
    readers();
    check(before == failures && aliases > 100, "alias names", "%d of %d are aliases", aliases,
          alias_rows);
    check(alias_find("Learning-Rate") == alias_find("learning_rate"), "names without case", "-");
    check(names_distance("abcd", "abdc") == 1 && names_distance("lr", "--lrr") == 3
          && names_distance("", "ab") == 2, "distance of names", "%d", names_distance("ab", "ba"));
    check(strcmp(alias_word("precision", "No"), "fp32") == 0
          && strcmp(alias_word("precision", "bf16"), "bf16") == 0, "words of values", "-");
    char *left = names_without("recipes/x.lua 'dpo.system=be kind' seq.max=8 'a.b=it'\\''s c=d' 'c=e'", "dpo.system|c");
    check(!strcmp(left, "recipes/x.lua seq.max=8 'a.b=it'\\''s c=d'"), "words of a quoted line", "%s", left);
    free(left);
}
