/* pack.c -- `gen pack`: command line of runtime/pack.
 *
 * In:    the arguments of `gen pack`.
 * Out:   the token file; sample rows with --show; a summary on stdout, progress on stderr. */
#include "gen/commands.h"
#include "gen/tools/tools.h"
#include "runtime/base.h"
#include "runtime/pack/format_steps.h"
#include "runtime/pack/pack_work.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: gen pack -o OUT.safetensors [options] FILE...\n"
    "       gen pack --prepare DIR [options] FILE...\n"
    "       gen pack --show N [options] FILE...\n"
    "\n"
    "  FILE  .jsonl or .ndjson: one row of JSON per line; .json: the same, or an array of rows;\n"
    "        -: standard input (rows if it begins with { or [); any other file: one text;\n"
    "        a folder: its files with these extensions or .txt, in order of their names, "
    "including\n"
    "        subfolders; of aclImdb only pos, neg and unsup; or a folder of arrays of ids,\n"
    "        train_data.npy and val_data.npy (int64, one row per sample), with their "
    "metadata.json\n"
    "\n"
    "  A row has the format of the first of these keys that it has:\n";

/* ---- options --------------------------------------------------------------------------------- */

static const char *option_value(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        err((Loc){0}, "pack: %s needs a value", argv[*i]);
    return argv[++*i];
}

static int64_t option_count(int argc, char **argv, int *i, int64_t lo, int64_t hi)
{
    const char *name = argv[*i], *text = option_value(argc, argv, i);
    char *end;
    long long n = strtoll(text, &end, 10);
    if (!*text || *end || n < lo || n > hi)
        err((Loc){0}, "pack: %s: must be %lld to %lld, got %s", name, (long long)lo, (long long)hi,
            text);
    return n;
}

static double option_share(int argc, char **argv, int *i)
{
    const char *name = argv[*i], *text = option_value(argc, argv, i);
    char *end;
    double x = strtod(text, &end);
    if (!*text || *end || !(x > 0 && x < 1))
        err((Loc){0}, "pack: %s: must be a number between 0 and 1, got %s", name, text);
    return x;
}

static int option_word(const char *name, const char *got, const char *const *word, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(word[i], got))
            return i;
    const char *near = text_nearest(got, word, n);
    Str all = {0};
    for (int i = 0; i < n; i++)
        str_print(&all, "%s%s", !i ? "" : i == n - 1 ? " or " : ", ", word[i]);
    err((Loc){0}, "pack: %s: must be %s, got %s%s%s%s", name, all.text, got,
        near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Joins the lines of an indented text. */
static char *one_line(const char *text)
{
    Str s = {0};
    for (; *text; text += *text ? 1 + strspn(text + 1, " ") : 0) {
        size_t n = strcspn(text, "\n");
        str_print(&s, "%s%.*s", s.n ? " " : "", (int)n, text);
        text += n;
    }
    return s.text;
}

static void print_help(FILE *to)
{
    fputs(usage, to);
    for (int i = 0; i < NFORMATS; i++)
        if (*pack_format[i].has)
            fprintf(to, "    %s\n", pack_format[i].doc);
    fprintf(to, "\n");
    command_options_print("pack", to);
    fprintf(to, "\nformats\n");
    for (int i = 0; i < NFORMATS; i++)
        fputs(text_columns(text_print("  %s", pack_format[i].name),
                           *pack_format[i].has ? "rows with these keys alone"
                                               : one_line(pack_format[i].doc)),
              to);
}

/* Reads --format, or --dataset, which has other names for two formats. */
static void option_format(PackOptions *o, const char *name, const char *got)
{
    static const char *const set[] = {"imdb", "hf"}, *const means[] = {"imdb", "corpus"};
    const char *names[NFORMATS], *format;
    for (int i = 0; i < NFORMATS; i++)
        names[i] = pack_format[i].name;
    format = !strcmp(name, "--format") ? names[option_word(name, got, names, NFORMATS)]
                                       : means[option_word(name, got, set, 2)];
    if (o->format && strcmp(o->format, format))
        err((Loc){0}, "pack: %s %s: conflicts with the format %s given before", name, got,
            o->format);
    o->format = format;
}

/* Reads an option of step-labelled solutions; false: argv[*i] is another one. */
static bool read_steps_option(int argc, char **argv, int *i, StepsRules *s, int64_t *steps)
{
    const char *a = argv[*i];
    if (!strcmp(a, "--steps")) {
        *steps = option_count(argc, argv, i, 0, STEPS_MARKS + 1);
        if (*steps == 1)
            err((Loc){0}, "pack: --steps: must be 2 to %d, or 0: one step has no mark",
                STEPS_MARKS + 1);
    } else if (!strcmp(a, "--rewards")) {
        s->rewards = option_count(argc, argv, i, 1, STEPS_MARKS + 1);
    } else if (!strcmp(a, "--mark")) {
        s->mark = option_value(argc, argv, i);
    } else if (!strcmp(a, "--mark-id")) {
        s->mark_id = option_count(argc, argv, i, 1, INT_MAX / 2);
    } else if (!strcmp(a, "--unlabelled")) {
        s->unlabelled = true;
    } else {
        return false;
    }
    return true;
}

/* Sets options of step-labelled solutions; steps -1: not given. */
static void steps_options(PackOptions *o, StepsRules *s, int64_t steps)
{
    s->mark = s->mark ? s->mark : PACK_MARK;
    s->no_mark = "gen pack --mark NAME takes another one; gen RECIPE prm.new_mark=true adds a row "
                 "to the model, and gen pack --mark-id N packs for it";
    s->system = o->system ? o->system : PACK_STEPS_SYSTEM;
    s->steps = steps < 0 ? PACK_STEPS : steps;
    if (!s->steps && s->rewards)
        err((Loc){0}, "pack: --rewards: with --steps 0 every mark needs a label");
    s->rewards = s->rewards || !s->steps ? s->rewards : s->steps - 1;
}

static void options_read(int argc, char **argv, PackOptions *o, const char **prepare)
{
    static StepsRules read;
    StepsRules *steps_rules = &read;
    const char *asked = NULL;    /* an option that only applies to step-labelled solutions */
    int64_t steps = -1;          /* not given */
    enum { TEMPLATE_VARS = 16 };
    static const char *variable[TEMPLATE_VARS + 1];
    int nvariables = 0;
    o->variable = variable;
    o->file = argv;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (a[0] == '-' && a[1] && strcmp(a, "--assistant-only") && !command_option("pack", a))
            command_unknown_option("pack", a);
        if (!strcmp(a, "-o")) {
            o->out = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--show")) {
            o->show = option_count(argc, argv, &i, 1, INT_MAX);
        } else if (!strcmp(a, "--prepare")) {
            *prepare = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--tokenizer")) {
            o->tokenizer = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--loss-on")) {
            o->loss = (Loss)(1 + option_word(a, option_value(argc, argv, &i), loss_name + 1,
                                             NLOSSES - 1));
        } else if (!strcmp(a, "--assistant-only")) {
            err((Loc){0}, "pack: --assistant-only is now --loss-on assistant");
        } else if (!strcmp(a, "--stride")) {
            o->stride = option_count(argc, argv, &i, 1, INT_MAX / 2);
        } else if (!strcmp(a, "--split")) {
            o->held_out = (HeldOut)option_word(a, option_value(argc, argv, &i), held_out_name,
                                               NHELD_OUT);
        } else if (!strcmp(a, "--eval-share")) {
            o->share = option_share(argc, argv, &i);
        } else if (!strcmp(a, "--system")) {
            o->system = option_value(argc, argv, &i);
        } else if (read_steps_option(argc, argv, &i, steps_rules, &steps)) {
            asked = a;
        } else if (!strcmp(a, "--chat")) {
            o->chat = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--template-var")) {
            if (nvariables == TEMPLATE_VARS)
                err((Loc){0}, "pack: --template-var: at most %d", TEMPLATE_VARS);
            variable[nvariables++] = option_value(argc, argv, &i);
        } else if (!strcmp(a, "--format") || !strcmp(a, "--dataset")) {
            option_format(o, a, option_value(argc, argv, &i));
        } else if (!strcmp(a, "--max-length")) {
            o->max_length = option_count(argc, argv, &i, 2, INT_MAX / 2);
        } else if (!strcmp(a, "--ignore-keys")) {
            o->ignore = split_names(option_value(argc, argv, &i), &o->nignore);
            if (!o->nignore)
                err((Loc){0},
                    "pack: --ignore-keys: must be keys separated by commas, such as "
                    "tools,functions");
        } else if (!strcmp(a, "--skip-bad")) {
            o->skip_bad = option_count(argc, argv, &i, 0, 1000000000);
        } else if (!strcmp(a, "--threads")) {
            o->threads = (int)option_count(argc, argv, &i, 1, PACK_THREADS_MAX);
        } else if (!strcmp(a, "--mask-id")) {
            o->mask = option_count(argc, argv, &i, 1, INT_MAX / 2);
        } else if (!strcmp(a, "--vocab")) {
            o->words = option_count(argc, argv, &i, 1, INT_MAX / 2);
        } else if (!strcmp(a, "--min-words")) {
            o->min_words = option_count(argc, argv, &i, 1, INT_MAX);
        } else if (!strcmp(a, "--kind")) {
            const char *k = option_value(argc, argv, &i);
            if (!strcmp(k, "bfd"))
                err((Loc){0}, "pack: --kind: must be auto, packed or rows; data.kind = bfd reads "
                              "rows");
            o->kind = (Kind)option_word(a, k, kind_name, NKINDS);
        } else if (a[0] == '-' && a[1]) {
            bug("pack: %s is not read", a);
        } else {
            argv[o->nfiles++] = argv[i];
        }
    }
    steps_options(o, steps_rules, steps);
    o->formats = pack_all_formats, o->more = steps_rules;
    o->asked = asked, o->asked_kind = KIND_STEPS, o->asked_row = "a solution in steps";
    if (o->kind == KIND_PACKED && o->max_length)
        err((Loc){0}, "pack: --max-length cuts rows; --kind packed keeps documents whole");
}

/* The command line without --ignore-keys. */
static char *command_text(int argc, char **argv)
{
    Str s = {0};
    str_print(&s, "gen pack");
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--ignore-keys"))
            i++;
        else
            str_print(&s, " %s", shell_word(argv[i]));
    return s.text;
}

/* Packs files and folders into one token file, or shows their rows. */
static PackError pack_files(const PackOptions *o)
{
    char name[SHA256_HEX];
    Work w = work_begin(o);
    work_do(&w, name);
    if (!w.pack.error.text && o->out)
        report_all(&w, stdout);
    else if (!w.pack.error.text)
        report_rules(&w, stdout);
    if (!w.pack.error.text && !o->out)
        report_skipped(&w, stdout);
    return work_end(&w);
}

int pack_main(int argc, char **argv)
{
    PackOptions o = {.who = "gen pack",
                     .tokenizer = "bytes",
                     .keys_there = true,
                     .format_flag = "--format",
                     .command = command_text(argc, argv)};
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help")) {
            print_help(stdout);
            return 0;
        }
    const char *prepare = NULL;
    options_read(argc, argv, &o, &prepare);
    if ((!o.out && !o.show && !prepare) || !o.nfiles)
        err((Loc){0}, "pack: needs %s: gen pack --help", o.nfiles
            ? "-o OUT.safetensors, or --show N" : "files to pack");
    if (prepare && (o.out || o.show || o.kind || (o.format && strcmp(o.format, "windows"))))
        err((Loc){0}, "pack: --prepare writes windows as arrays: drop %s",
            o.out    ? "-o"
            : o.show ? "--show"
            : o.kind ? "--kind"
                     : "--format");
    if (o.mask && !prepare)
        err((Loc){0}, "pack: --mask-id is for --prepare");
    if (prepare)                 /* the model's vocabulary */
        o.vocab = o.words, o.words = 0;
    PackError e = prepare ? pack_prepare(&o, prepare, stdout) : pack_files(&o);
    const char *remedy = e.text ? error_remedy(e.text) : NULL;
    if (e.text)
        err((Loc){e.file, e.line}, "%s%s%s%s%s", e.file ? "" : "pack: ", e.text, remedy ? "; " : "",
            remedy ? remedy : "",
            o.kind && e.makes == KIND_PACKED ? "; without --kind it is packed as a text" : "");
    return 0;
}
