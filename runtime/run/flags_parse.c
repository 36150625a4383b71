/* flags_parse.c -- command line of a program: flags, their aliases, and claims about the build.
 *
 * In:    argv and the recipe's defaults.  Out: Flags, or one line and EXIT_CONFIG. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/names.h"
#include "runtime/objectives/owners.h"
#include "runtime/run/flags_rows.h"

static const struct { int flag, owners; const char *others; } together[] = {
#define WITH(flag, owners, others) { FLAG_##flag, OWNERS(owners), others },
#include "runtime/run/flags.def"
};

static const int either[][2] = {
#define EITHER(flag, other) { FLAG_##flag, FLAG_##other },
#include "runtime/run/flags.def"
};

static const char *const empty[FLAG_COUNT] = {
#define EMPTY(flag, word) [FLAG_##flag] = word,
#include "runtime/run/flags.def"
};

static const bool makes_records[FLAG_COUNT] = {
#define RECORDS(flag) [FLAG_##flag] = true,
#include "runtime/run/flags.def"
};

/* True if programs of some objective have this flag. */
static bool is_flag(const char *name)
{
    return flags_find(name) >= 0 || owners_of_left_out(name);
}

/* Returns the flag or alias that was probably meant; NULL: no name is similar. */
static const char *nearest(const char *name)
{
    int least = (int)(strlen(name) + 1) / 3 + 1;
    const char *near = NULL;
    for (int i = 0; i < FLAG_COUNT + alias_rows; i++) {
        const char *have = i < FLAG_COUNT ? flags_row[i].name : alias_row[i - FLAG_COUNT].name;
        int d = names_distance(name, have);
        if (d < least && (i >= FLAG_COUNT || flags_has(i)))
            near = have, least = d;
    }
    return near;
}

static void die_unknown(const char *what, const char *name)
{
    const char *near = nearest(name);
    char close[64], ours[64];
    if (!near)
        die(EXIT_CONFIG, "%s%.60s: no such flag (--help lists all)", what, name);
    flags_spell(close, near);
    const Alias *row = flags_find(near) < 0 ? alias_find(near) : NULL;
    if (!row || !*row->ours)
        die(EXIT_CONFIG, "%s%.60s: no such flag; did you mean --%s? (--help lists all)", what, name,
            close);
    bool field = row->kind == ALIAS_FIELD || (row->kind == ALIAS_MEANS && !is_flag(row->ours));
    flags_spell(ours, row->ours);
    die(EXIT_CONFIG, "%s%.60s: no such flag; did you mean --%s, here %s%s? (--help lists all)",
        what, name, close, field ? "the recipe's " : "--", field ? row->ours : ours);
}

/* Ends the program: the name is no flag here. given: its value, or NULL. */
static void die_foreign(const Alias *row, const char *name, const char *given, const Made *made)
{
    char ours[64];
    flags_spell(ours, row->ours);
    switch (row->kind) {
    case ALIAS_LINE:
    case ALIAS_MEANS:
    case ALIAS_FIELD:
        if (is_flag(row->ours))
            die(EXIT_CONFIG, "--%s: write --%s %s (%s)", name, ours, alias_value(row, given),
                row->note);
        built_check_field(made, format("--%s", name), row->ours);
        die(EXIT_CONFIG, "--%s%s%.60s: fixed when the program is generated: gen %s %s=%s%s%s%s",
            name, given ? " " : "", given ? given : "", made->words, row->ours,
            alias_value(row, given), *row->note ? " (" : "", row->note, *row->note ? ")" : "");
    case ALIAS_NONE:
        die(EXIT_CONFIG, "--%s: not supported: %s", name, row->note);
    default:
        die(EXIT_CONFIG, "--%s: %s", name, row->note);
    }
}

/* Returns the path of `leaf` next to the program, in static memory: the default of --out. */
static const char *beside_program(const char *leaf)
{
    static char path[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    while (n > 0 && path[n - 1] != '/')
        n--;
    snprintf(path + (n > 0 ? n : 0), 16, "%s", leaf);
    return path;
}

/* Returns true if the word after an ALWAYS name (not true or false: "true") is the value that
 * always holds; ends the program otherwise. */
static bool holds(const Alias *row, const char *name, const char *word)
{
    const char *asked = flags_truth(word) ? word : "true";
    if (!names_same(asked, row->value))
        die(EXIT_CONFIG, "--%s %s: not supported: %s", name, asked, row->note);
    return true;
}

/* Appends to a note on the command line; `first` begins it. */
static void remark(char **text, const char *first, char *more)
{
    char *longer = format("%s%s%s", *text ? *text : first, *text ? ", " : "", more);
    free(*text), free(more);
    *text = longer;
}

/* The command line being read. */
typedef struct {
    Flags *f;
    const Made *made;
    int argc, i;
    char **argv;
    Claims claims;               /* about fields, which are fixed in the build */
    struct {
        int flag, other;         /* flag takes its value from other; other -1: from its own --flag
                                    N */
        char *typed;
    } left[FLAG_COUNT];
    int nleft;
} Line;

/* True if the value is a list with commas; two different lists for one flag are an error. */
static bool is_list(int k)
{
    const size_t n = strlen(flags_row[k].metavar);
    return n > 4 && !strcmp(flags_row[k].metavar + n - 4, ",...");
}

/* Returns the last value of flag k; malloc'ed. */
static char *last_text(const Flags *f, int k)
{
    return flags_repeats(k) ? format("%s", flags_word(f, k)) : flags_text(f, k);
}

static void set(Line *l, int k, const char *name, const char *value)
{
    const bool again = flags_repeats(k);
    if (again && !l->f->given[k])
        flags_clear(l->f, k);    /* the recipe's */
    char *before = l->f->given[k] ? last_text(l->f, k) : NULL;
    const bool none = !*value && empty[k];
    value = none ? empty[k] : value;
    char *error = flags_set(l->f, k, value);
    if (error)
        die(EXIT_CONFIG, "--%s: %s (%.*s)", name, error, flags_summary(k), flags_doc(k));
    if (!*value && !none)
        die(EXIT_CONFIG, "--%s: is empty, needs %s; is a shell variable unset?", name,
            flags_row[k].metavar);
    char *now = last_text(l->f, k);
    if (before && !names_same(l->f->by[k], name) && strcmp(before, now))
        die(EXIT_CONFIG, "--%s %s and --%s %s are the same flag: give one of them", l->f->by[k],
            before, name, now);
    if (before && is_list(k) && strcmp(before, now))
        die(EXIT_CONFIG, "--%s is given twice, %s and %s: give one list, --%s %s,%s", name, before,
            now, name, before, now);
    if (before && !again && strcmp(before, now))
        remark(&l->f->remark[1], "given twice, the last one holds: ",
               format("--%s %s and %s", name, before, now));
    snprintf(l->f->by[k], sizeof l->f->by[k], "%s", name);
    l->f->given[k] = true;
    if (again)
        flags_add(l->f, k, flags_word(l->f, k));
    free(before);
    free(now);
}

/* Returns the value of a flag given without one: true for a BOOL, the leaf of [DIR=leaf]
 * (malloc'ed, to be kept); NULL: the flag needs a value. */
static const char *bare(const FlagRow *r)
{
    const char *equal = strchr(r->metavar, '=');
    if (r->type == TYPE_BOOL)
        return "true";
    return *r->metavar == '[' ? format("%.*s", (int)strcspn(equal + 1, "]"), equal + 1) : NULL;
}

#define NOT_OURS \
    "--%s: needs a program with the objective %s; this one has %s (--help lists its flags)"

/* Ends the program unless it has flag k. k -1: even the row is missing; ours: the flag's name;
 * name: as typed. */
static void check_has(int k, const char *ours, const char *name)
{
    const char *other = k < 0 ? owners_of_left_out(ours) : NULL;
    if (other)
        die(EXIT_CONFIG, NOT_OURS, name, other, flags_objective);
    if (k < 0 || flags_has(k))
        return;
    if (!flags_owner[k])
        die(EXIT_CONFIG,
            "--%s: programs with the objective %s have no such flag (--help lists all)", name,
            flags_objective);
    die(EXIT_CONFIG, NOT_OURS, name, owners_text(flags_owner[k]), flags_objective);
}

/* Returns the value of flag k when another name switches it off; NULL: unknown. */
static const char *switched_off(int k, const Alias *row)
{
    const char *on = alias_meaning_of(row, "true");
    if (flags_row[k].type != TYPE_BOOL || !on)
        return alias_unset(row->ours);
    return names_same(on, "true") ? "false" : "true";
}

/* Takes a MEANS name, each of whose values means one of a flag. value: after "=", or NULL. */
static void take_meaning(Line *l, const Alias *row, const char *name, const char *value)
{
    const char *next = l->i + 1 < l->argc ? l->argv[l->i + 1] : NULL;
    next = next && strncmp(next, "--", 2) ? next : NULL;
    const char *given = value ? value : next;
    const bool alone = alias_meaning_of(row, "true") != NULL;
    const bool known = given && (alias_on(given) || alias_off(given) ||
                                 alias_meaning_of(row, given));
    l->i += !value && next && (known || !alone);
    given = known || !alone || value ? given : "true";
    const char *means = given ? alias_meaning_of(row, given) : NULL;
    const int k = flags_find(row->ours);
    check_has(k, row->ours, name);
    if (!means && alias_off(given))
        means = switched_off(k, row);
    if (!means)
        die_foreign(row, name, given, l->made);
    if (*means == '?') {
        l->left[l->nleft].flag = k;
        l->left[l->nleft].other = means[1] ? flags_find(means + 1) : -1;
        l->left[l->nleft].typed = format("--%s %s", name, given);
        l->nleft += l->nleft < FLAG_COUNT - 1;
    } else if (*means)
        set(l, k, name, means);
    for (int i = 0; i < alias_meanings; i++) {
        const AliasMeaning *m = &alias_meaning[i];
        const int also = flags_find(m->ours);
        if (also >= 0 && also != k && !m->implied && alias_meant(m, row->name, given))
            set(l, also, name, m->value);
    }
}

/* Ends the program unless every value left to another flag is known: given, the default, or that of
 * a third flag. */
static void check_left(Line *l)
{
    Flags *f = l->f;
    for (int i = 0; i < l->nleft; i++) {
        const int k = l->left[i].flag, other = l->left[i].other;
        int64_t *at = (int64_t *)((char *)f + flags_row[k].offset);
        if (*at <= 0 && !f->given[k] && other >= 0 && f->given[other]) {
            *at = *(int64_t *)((char *)f + flags_row[other].offset);
            f->given[k] = true;
            memcpy(f->by[k], f->by[other], sizeof f->by[k]);
        }
        if (*at <= 0)
            die(EXIT_CONFIG, "%s: give the number as %s N", l->left[i].typed, flags_spelt(k));
        free(l->left[i].typed);
    }
}

/* True if the flag of the row takes this share of a whole. */
static bool is_share(const Alias *row, const char *given)
{
    char *end;
    return row->kind == ALIAS_LINE && given && strtod(row->value, NULL) > 0 &&
           strtod(given, &end) < 1 && end != given && !*end;
}

/* Joins the words after a list flag with commas, as a shell expands a pattern; malloc'ed. */
static const char *listed(Line *l, const char *first)
{
    char *list = format("%s", first);
    while (l->i + 1 < l->argc && (*l->argv[l->i + 1] != '-' || !l->argv[l->i + 1][1])) {
        char *longer = format("%s,%s", list, l->argv[++l->i]);
        free(list);
        list = longer;
    }
    return list;
}

/* Takes the flag argv[i], whose value is in the same word or the next. */
static void take(Line *l)
{
    const char *word = l->argv[l->i] + 2, *equal = strchr(word, '='), *value;
    const char *next = l->i + 1 < l->argc ? l->argv[l->i + 1] : NULL;
    const char *inline_value = equal ? equal + 1 : NULL;
    char name[64];
    size_t n = equal ? (size_t)(equal - word) : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    if (renamed(name))
        snprintf(name, sizeof name, "%s", renamed(name));
    int k = flags_find(name);
    if (k < 0) {
        check_has(k, name, name);
        const Alias *row = alias_find(name);
        const char *given = equal ? inline_value : next && strncmp(next, "--", 2) ? next : NULL;
        if (!row && !strchr(name, '.'))
            die_unknown("--", name);
        if (built_is(row, name)) {
            const int words = built_take(&l->claims, l->made, row, name, inline_value,
                                         l->argc - l->i - 1,
                                         l->argv + l->i + 1);
            if (words < 0)
                die_foreign(row, name, given, l->made);
            l->i += words;
            return;
        }
        if (row->kind == ALIAS_MEANS) {
            take_meaning(l, row, name, inline_value);
            return;
        }
        if (row->kind == ALIAS_ALWAYS && holds(row, name, equal ? inline_value : next)) {
            l->i += !equal && flags_truth(next);
            return;
        }
        if (row->kind != ALIAS_FLAG && !is_share(row, given))
            die_foreign(row, name, given, l->made);
        k = flags_find(row->ours);
        check_has(k, row->ours, name);
    }
    check_has(k, name, name);
    /* "true", "false" or their aliases; after an alias of the flag any word is its value */
    const bool answers = next && (flags_truth(alias_word(flags_row[k].name, next)) ||
                                  (!names_same(name, flags_row[k].name) && *next != '-'));
    const bool alone = flags_row[k].type == TYPE_BOOL ? !answers : !next || !strncmp(next, "--", 2);
    value = equal ? inline_value : alone ? bare(&flags_row[k]) : NULL;
    if (!value && next) {
        l->i++;
        value = is_list(k) ? listed(l, next) : next;
    }
    if (!value)
        die(EXIT_CONFIG, "--%s: needs a value: %s", name, flags_row[k].metavar);
    set(l, k, name, value);
}

/* Returns argv with the words before the first flag turned into the flags of the objective's
 * POSITIONS row; of the same length. */
static char **positions(int argc, char **argv)
{
    static const struct { const char *objective, *names; } row[] = {
#define POSITIONS(objective, names) { #objective, names },
#include "runtime/objectives/rows.def"
        { NULL, NULL }
    };
    const char *name = "";
    for (size_t i = 0; flags_objective && row[i].objective; i++)
        name = strcmp(row[i].objective, flags_objective) ? name : row[i].names;
    int first = 1;               /* after the flags that run.sh asks for the run folder with */
    while (first < argc && (!strcmp(argv[first], "--where") || !strcmp(argv[first], "--verbose")))
        first++;
    if (first >= argc || strpbrk(argv[first], "./="))
        return argv;
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (!words)
        die(EXIT_INTERNAL, "out of memory for the command line");
    memcpy(words, argv, (size_t)argc * sizeof *words);
    for (int i = first; i < argc && *argv[i] && *argv[i] != '-' && *name; i++) {
        words[i] = format("--%.*s=%s", (int)strcspn(name, "|"), name, argv[i]);
        name += strcspn(name, "|");
        name += *name == '|';
    }
    return words;
}

/* True if a word of the command line is the flag of this name. */
static bool gives(const char *word, const char *name)
{
    char given[64];
    if (strncmp(word, "--", 2))
        return false;
    snprintf(given, sizeof given, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    return names_same(given, name);
}

/* Sets f->remark[0], for flags given by names of earlier releases; both names together are an
 * error. */
static void note_renamed(Flags *f, int argc, char *const *argv)
{
    for (int k = 0; k < renamed_rows; k++) {
        const Renamed *r = &renamed_row[k];
        bool before = false, now = false;
        for (int i = 1; i < argc; i++)
            before = before || gives(argv[i], r->before), now = now || gives(argv[i], r->now);
        if (before && now)
            die(EXIT_CONFIG, "--%s is the old name of --%s: leave out --%s", r->before, r->now,
                r->before);
        if (!before)
            continue;
        remark(&f->remark[0], "renamed: ", format("--%s is now --%s", r->before, r->now));
    }
}

/* Ends the program at a word that does not begin with --, with what was probably meant. */
static void die_stray(const char *word)
{
    char name[64], flag[64];
    const char *bare = word + strspn(word, "-");
    size_t n = strcspn(bare, "=");
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), bare);
    int k = flags_find(name);
    if (k < 0)
        die(EXIT_CONFIG, "%.60s: not a flag (write --name value; --help lists all)", word);
    flags_spell(flag, name);
    die(EXIT_CONFIG, "%.60s: not a flag; write --%s %.60s", word, flag,
        bare[n] ? bare + n + 1 : flags_row[k].metavar);
}

/* Ends the program if none of `others` is on, without which flag i, which was given, has no
 * effect. */
static void check_together(const Flags *f, int i, const char *others)
{
    char *lacks = NULL;
    for (int k = 0; k < FLAG_COUNT; k++) {
        if (!flags_has(k) || !names_listed(others, flags_row[k].name))
            continue;
        if (f->given[k] || flags_on(f, k))
            return;
        char *name = flags_spelt(k);
        char *longer = format("%s%s%s", lacks ? lacks : "", lacks ? " or " : "", name);
        free(name), free(lacks);
        lacks = longer;
    }
    if (lacks)
        die(EXIT_CONFIG, "%s: has no effect without %s", flags_spelt(i), lacks);
}

/* Checks all rows EITHER and WITH. */
static void check_effects(const Flags *f)
{
    for (size_t i = 0; i < sizeof either / sizeof *either; i++)
        if (flags_on(f, either[i][0]) && flags_on(f, either[i][1]))
            die(EXIT_CONFIG, "%s and %s contradict each other: give one of them",
                flags_spelt(either[i][0]), flags_spelt(either[i][1]));
    for (size_t r = 0; r < sizeof together / sizeof *together; r++) {
        const int owners = together[r].owners;
        const bool ours = owners == OWNERS_all ||
                          (flags_objective && owners_include(owners, flags_objective));
        if (ours && f->given[together[r].flag])
            check_together(f, together[r].flag, together[r].others);
    }
}

void flags_note(const Flags *f)
{
    for (size_t i = 0; i < sizeof f->remark / sizeof *f->remark; i++)
        if (f->remark[i])
            note("%s", f->remark[i]);
}

bool flags_reads(int i, int command, bool weights)
{
    const char *readers = flags_row[i].readers;
    static const int previews[] = {FLAG_dry_run, FLAG_bench_steps, FLAG_show};
    bool run = command < 0;
    for (size_t k = 0; k < sizeof previews / sizeof *previews; k++)
        run = run || command == previews[k];
    return names_listed(readers, "any") || (run && names_listed(readers, "run")) ||
           (weights && names_listed(readers, "weights")) ||
           names_listed(readers, command < 0 ? "train" : flags_row[command].name);
}

bool flags_of_run(int i, int command)
{
    return command >= 0 && makes_records[i] && flags_has(i) &&
           names_listed(FLAGS_EVALUATES, flags_row[command].name) && flags_reads(i, command, true);
}

void flags_check_readers(const Flags *f, int command, bool weights)
{
    world.reads_flags = true;
    for (int k = 0; k < FLAG_COUNT; k++) {
        const char *readers = flags_row[k].readers;
        if (!f->given[k] || flags_reads(k, command, weights))
            continue;
        if (command < 0)
            check_together(f, k, readers);
        die(EXIT_CONFIG, "--%s has no effect with %s%s: leave it out", f->by[k],
            flags_spelt(command),
            flags_reads(k, -1, false) && !strchr(readers, '|') ? ", which does not train" : "");
    }
    world.reads_flags = false;
}

void flags_parse(Flags *f, const Made *made, const FlagDefault *defaults, int argc, char **argv)
{
    world.reads_flags = true;
    *f = (Flags){
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc) .name = value,
#include "runtime/run/flags.def"
    };
    for (; defaults && defaults->name; defaults++) {
        int k = flags_find(defaults->name);
        if (k < 0 || !flags_row[k].recipe || !flags_has(k))
            die_unknown("recipe, run: ", defaults->name);
        char *error = flags_set(f, k, defaults->value);
        if (error)
            die(EXIT_CONFIG, "recipe, run.%s: %s", defaults->name, error);
        if (flags_repeats(k))
            flags_add(f, k, flags_word(f, k));
    }
    argv = positions(argc, argv);
    note_renamed(f, argc, argv);
    Line l = { .f = f, .made = made, .argc = argc, .argv = argv };
    for (l.i = 1; l.i < argc; l.i++) {
        if (!strcmp(argv[l.i], "-h"))
            f->help = true;
        else if (!strncmp(argv[l.i], "--", 2) && argv[l.i][2])
            take(&l);
        else
            die_stray(argv[l.i]);
    }
    if (!f->help)
        built_check(&l.claims, made);
    check_left(&l);
    free(l.claims.claim);
    check_effects(f);
    if (!*f->out)
        f->out = beside_program("run");
    if (f->given[FLAG_epochs] && f->given[FLAG_steps] && f->steps)
        f->remark[2] = format("--%s has no effect: --%s %lld decides", f->by[FLAG_epochs],
                              f->by[FLAG_steps], (long long)f->steps);
    if (f->given[FLAG_epochs] && !f->given[FLAG_steps]) {
        f->steps = 0, f->given[FLAG_steps] = true;   /* overrides a default and a resumed run's
                                                        steps */
        memcpy(f->by[FLAG_steps], f->by[FLAG_epochs], sizeof f->by[FLAG_steps]);
    }
#define AS(flag, other, owner)                                                                 \
    if (!f->given[FLAG_##flag] && !flags_on(f, FLAG_##flag) && flags_objective &&              \
        !strcmp(#owner, flags_objective))                                                      \
        f->flag = f->other;
#include "runtime/run/flags.def"
    world.reads_flags = false;
}
