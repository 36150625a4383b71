/* built.c -- flags whose settings were fixed when the program was generated.
 *
 * In:    words of the command line, rows of aliases.def, the recipe's fields.
 * Out:   nothing, or one line and EXIT_CONFIG.
 * Method: flags become claims; once all are read, the claims of each field are compared with it. */
#define _GNU_SOURCE
#include "runtime/run/built.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/objectives/owners.h"
#include "runtime/ranks/launch.h"

typedef enum {
    CLAIM_IS,                    /* the field has this value */
    CLAIM_HAS,                   /* the list has these items */
    CLAIM_USED,                  /* the feature of the field is on: not the value that disables
                                    it */
    CLAIM_NOT                    /* the field does not have this value */
} ClaimKind;

struct Claim {
    ClaimKind kind;
    const char *field, *value;   /* value NULL: of CLAIM_USED */
    const char *typed;           /* "--batch_size 8" */
    const Alias *row;            /* NULL: the recipe's own name */
    bool per_node;
};

/* ---- the fields ------------------------------------------------------------------------------ */

/* Returns the value in the k-th line of the field, and its length; NULL: fewer lines. */
static const char *line_of(const Made *made, const char *field, int k, size_t *n)
{
    for (size_t i = 0; i < sizeof made->fields / sizeof *made->fields; i++)
        for (const char *line = made->fields[i]; line && *line;
             line += strcspn(line, "\n"), line += *line == '\n') {
            const size_t path = strcspn(line, "=\n");
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(path < 63 ? path : 63), line);
            if (line[path] != '=' || !names_same(name, field) || k-- > 0)
                continue;
            *n = strcspn(line + path + 1, "\n");
            return line + path + 1;
        }
    return NULL;
}

static bool is_list(const char *built) { return *built == '{'; }

static bool is_bool(const char *built)
{
    return !strncmp(built, "true", 4) || !strncmp(built, "false", 5);
}

static bool is_number(const char *built) { return isdigit((unsigned char)*built) || *built == '-'; }

/* Returns a value as gen's command line takes it: bf16 for `"bf16"`, a,b for `{"a", "b"}`;
 * malloc'ed. */
static char *plain(const char *built, size_t n)
{
    char *text = format("%.*s", (int)n, built), *end = text;
    const bool quoted = *text == '"' || *text == '{';
    for (const char *p = text; *p; p++)
        if (!quoted || !strchr("\"{} ", *p))
            *end++ = *p;
    *end = '\0';
    return text;
}

void built_check_field(const Made *made, const char *typed, const char *field)
{
    size_t n;
    const char *objective = line_of(made, "objective", 0, &n);
    if (objective && !line_of(made, field, 0, &(size_t){0}))
        die(EXIT_CONFIG, "%s: recipes like this program's, with objective=%s, have no field %s; "
            "leave it out", typed, plain(objective, n), field);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns the next item of a list with commas or blanks, in our words, malloc'ed; NULL: the end. */
static char *item(const char *field, const char **list)
{
    *list += strspn(*list, ", ");
    const size_t n = strcspn(*list, ", ");
    if (!n)
        return NULL;
    char *word = format("%.*s", (int)n, *list), *ours = format("%s", alias_word(field, word));
    *list += n;
    free(word);
    return ours;
}

static bool has_item(const char *field, const char *list, const char *wanted)
{
    bool found = false;
    for (char *word; (word = item(field, &list)); free(word))
        found = found || names_same(word, wanted);
    return found;
}

static bool subset(const char *field, const char *a, const char *of)
{
    bool all = true;
    for (char *word; (word = item(field, &a)); free(word))
        all = all && has_item(field, of, word);
    return all;
}

static bool number_of(const char *text, double *x)
{
    char *end;
    *x = strtod(text, &end);
    return *text && !text[strspn(text, "+-.0123456789eE")] && !*end;
}

/* True if two values of a field are equivalent: 3 and 3.0, bf16 and bfloat16, lists in any
 * order. */
static bool same(const char *field, const char *a, const char *b)
{
    double x, y;
    if (number_of(a, &x) && number_of(b, &y))
        return x == y;
    if (names_same(alias_word(field, a), alias_word(field, b)))
        return true;
    if ((alias_on(a) && alias_on(b)) || (alias_off(a) && alias_off(b)))
        return true;
    return (strchr(a, ',') || strchr(b, ',')) && subset(field, a, b) && subset(field, b, a);
}

/* True if a line of the field has the value; has: if a list has all its items. */
static bool built_as(const Made *made, const char *field, const char *value, bool has)
{
    size_t n;
    bool found = false;
    const char *line;
    for (int k = 0; !found && (line = line_of(made, field, k, &n)); k++) {
        char *text = plain(line, n);
        found = has ? subset(field, value, text) : same(field, value, text);
        free(text);
    }
    return found;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void claim(Claims *c, Claim one)
{
    c->claim = realloc(c->claim, sizeof *c->claim * (size_t)(c->n + 1));
    if (!c->claim)
        die(EXIT_INTERNAL, "out of memory for the command line");
    c->claim[c->n++] = one;
}

static bool is_flag(const char *ours)
{
    static const char *const flags[] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc) #name,
#include "runtime/run/flags.def"
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (names_same(flags[i], ours))
            return true;
    return owners_of_left_out(ours);
}

/* Returns the field that must have the value of this name; NULL: none. */
static const char *same_field(const Alias *row)
{
    static const struct { const char *name, *field; } rows[] = {
#define SAME(theirs, field) { theirs, field },
#include "runtime/files/aliases.def"
    };
    for (size_t i = 0; row && i < sizeof rows / sizeof *rows; i++)
        if (names_same(rows[i].name, row->name))
            return rows[i].field;
    return NULL;
}

bool built_is(const Alias *row, const char *name)
{
    if (!row)
        return strchr(name, '.') != NULL;
    if (row->kind == ALIAS_FIELD || row->kind == ALIAS_NONE || same_field(row))
        return true;
    if (row->kind == ALIAS_MEANS)
        return !is_flag(row->ours);
    for (int i = 0; i < alias_meanings && row->kind == ALIAS_NOTE; i++)
        if (names_same(alias_meaning[i].name, row->name) && !alias_meaning[i].implied)
            return true;
    return false;
}

/* Adds the claim of a name that excludes a value of a field. Returns false if the name has no such
 * row. */
static bool add_denied(Claims *c, const Alias *row, const char *given, const char *typed)
{
    const bool off = row->kind == ALIAS_MEANS && alias_off(given);  /* its note is about true */
    for (int i = 0; i < alias_denials; i++) {
        const AliasDenial *d = &alias_denial[i];
        if (names_same(d->name, row->name) && given && alias_given(d->given, given)) {
            claim(c, (Claim){ CLAIM_NOT, d->ours, d->value, typed, off ? NULL : row, false });
            return true;
        }
    }
    return false;
}

/* Adds the claims about fields that a value of the name implies. Returns false if no row has this
 * value. */
static bool add_meanings(Claims *c, const Alias *row, const char *given, const char *typed)
{
    bool matched = false;
    for (int i = 0; i < alias_meanings; i++) {
        const AliasMeaning *m = &alias_meaning[i];
        const bool is_main = !strcmp(m->ours, row->ours);
        if (!alias_meant(m, row->name, given) || (m->implied && !is_main) || is_flag(m->ours))
            continue;
        matched = true;
        if (!*m->ours)
            continue;
        const bool left = *m->value == '?', adds = *m->value == '+';
        claim(c, (Claim){.kind = left   ? CLAIM_USED
                                 : adds ? CLAIM_HAS
                                        : CLAIM_IS,
                         .field = m->ours,
                         .value = left ? NULL : m->value + adds,
                         .typed = typed,
                         .row = is_main ? row : NULL});
    }
    return matched;
}

/* Returns the value that a name means when switched on; NULL: no row. */
static const char *on_value(const Alias *row)
{
    for (int i = 0; i < alias_meanings; i++) {
        const AliasMeaning *m = &alias_meaning[i];
        if (names_same(m->name, row->name) && !strcmp(m->given, "true") &&
            !strcmp(m->ours, row->ours))
            return m->value;
    }
    return NULL;
}

/* Takes a name whose value is yes, no or a word of its rows. Returns the number of words after it
 * that are its value; -1: no row has this value. */
static int take_meaning(Claims *c, const Alias *row, const char *name, const char *value,
                        const char *next)
{
    const bool flag = next && strncmp(next, "--", 2);
    const char *on = on_value(row), *given = value ? value : flag ? next : NULL;
    const bool known = given && (alias_on(given) || alias_off(given)), word = given && !known;
    const int taken = !value && flag && (known || !on) ? 1 : 0;
    if (!given || (word && on && !value))
        given = "true";
    char *typed = format("--%s%s%s", name, value || taken ? " " : "", value || taken ? given : "");
    if (add_denied(c, row, given, typed) || add_meanings(c, row, given, typed))
        return taken;
    if (alias_off(given) && on && *on != '?') {
        claim(c, (Claim){ CLAIM_NOT, row->ours, on + (*on == '+'), typed, row, false });
        return taken;
    }
    const char *unset = alias_unset(row->ours);
    if (!unset || !known)
        return -1;
    const bool off = alias_off(given);
    claim(c,
          (Claim){off ? CLAIM_IS : CLAIM_USED, row->ours, off ? unset : NULL, typed, row, false});
    return taken;
}

/* Joins the words of a list after a flag with commas; malloc'ed. Adds their number to *taken. */
static char *joined(int n, char *const *argv, int *taken)
{
    char *list = format("%s", "");
    for (; *taken < n && strncmp(argv[*taken], "--", 2); ++*taken) {
        char *longer = format("%s%s%s", list, *list ? "," : "", argv[*taken]);
        free(list);
        list = longer;
    }
    return list;
}

/* Takes a name that means a field, with a value. Returns the number of words used. */
static int take_value(Claims *c, const Made *made, const Alias *row, const char *name,
                      const char *value, int n, char *const *argv)
{
    const char *same = same_field(row), *field = same ? same : row ? row->ours : name;
    size_t length;
    const char *built = line_of(made, field, 0, &length);
    const char *next = n && strncmp(*argv, "--", 2) ? *argv : NULL, *given = value;
    int taken = 0;
    if (!built && made->fields[0] && !row)
        die(EXIT_CONFIG,
            "--%s: the recipe has no such field; gen explain %s shows the nearest",
            name, name);
    if (!given && built && is_list(built)) {
        given = joined(n, argv, &taken);
    } else if (!given && built && is_bool(built)) {
        taken = next && (alias_on(next) || alias_off(next));
        given = taken ? next : "true";
    } else if (!given && next) {
        given = next;
        taken = 1;
    }
    if (!given || !*given)
        die(EXIT_CONFIG, "--%s: needs a value%s%s", name, row && *row->value ? ", such as " : "",
            row ? row->value : "");
    double x;
    if (built && is_number(built) && !number_of(alias_word(field, given), &x))
        die(EXIT_CONFIG, "--%s: must be a number, got \"%.60s\"", name, given);
    if (built && is_bool(built) && !alias_on(given) && !alias_off(given))
        die(EXIT_CONFIG, "--%s: must be true or false, got \"%.60s\"", name, given);
    char *typed = format("--%s%s%s", name, value || taken ? " " : "", value || taken ? given : "");
    claim(c, (Claim){ CLAIM_IS, field, given, typed, row, row && alias_per_node(name) });
    return taken;
}

int built_take(Claims *c, const Made *made, const Alias *row, const char *name, const char *value,
               int n, char *const *argv)
{
    if (row && row->kind == ALIAS_NONE) {
        const char *given = value ? value : n ? *argv : NULL;
        return !alias_off(given) ? -1 : value ? 0 : 1;
    }
    if (!row || row->kind == ALIAS_FIELD || same_field(row))
        return take_value(c, made, row, format("%s", name), value, n, argv);
    return take_meaning(c, row, name, value, n ? *argv : NULL);
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* Returns the number of machines of the job, from DIECAST_NODES or the launcher. */
static long nodes(void)
{
    const char *given = getenv("DIECAST_NODES");
    Launch us;
    char *error = NULL, *end;
    if (given && *given) {
        const long n = strtol(given, &end, 10);
        if (!isdigit((unsigned char)*given) || *end || n < 1 || n > 1000000)
            die(EXIT_CONFIG, "DIECAST_NODES=%.40s: must be the number of machines, from 1", given);
        return n;
    }
    error = launch_resolve(environ, &us);
    const bool knows = !error && us.local_size > 0 && us.size % us.local_size == 0;
    free(error);
    return knows ? us.size / us.local_size : 1;
}

/* All claims about one field. */
typedef struct {
    const char *field;
    char *value;                 /* the requested value; NULL: none, only the claims below */
    const char *is, *has;        /* flag that requests it; last flag that adds items */
    const Claim *used, *not;     /* claim that contradicts the program, or NULL */
    bool differs;                /* the program has another value */
} Wish;

static void contradict(const char *a, const char *b)
{
    die(EXIT_CONFIG, "%s and %s contradict each other: leave one of them out", a, b);
}

/* Adds a CLAIM_IS; two of them must agree. */
static void add_value(Wish *w, const Claim *c)
{
    char *value = !c->per_node ? format("%s", c->value)
                               : format("%.17g", strtod(c->value, NULL) * (double)nodes());
    if (w->is && !same(w->field, w->value, value))
        contradict(w->is, c->typed);
    free(w->value);
    w->value = value;
    w->is = c->typed;
}

/* Adds the items of a CLAIM_HAS. */
static void add_items(Wish *w, const Claim *c)
{
    const char *list = c->value;
    for (char *word; (word = item(w->field, &list)); free(word)) {
        if (w->value && has_item(w->field, w->value, word))
            continue;
        char *longer = format("%s%s%s", w->value ? w->value : "", w->value ? "," : "", word);
        free(w->value);
        w->value = longer;
    }
    w->has = c->typed;
}

static Wish wish_of(const Claims *all, const Made *made, const char *field)
{
    const char *unset = alias_unset(field);
    Wish w = { .field = field };
    for (int pass = CLAIM_IS; pass <= CLAIM_NOT; pass++)
        for (int i = 0; i < all->n; i++) {
            const Claim *c = &all->claim[i];
            const char *against = pass == CLAIM_USED ? unset : c->value;
            if ((int)c->kind != pass || !names_same(c->field, field))
                continue;
            if (pass == CLAIM_IS)
                add_value(&w, c);
            else if (pass == CLAIM_HAS)
                add_items(&w, c);
            else if (w.is && against && same(field, w.value, against))
                contradict(w.is, c->typed);
            else if (against && built_as(made, field, against, false) && pass == CLAIM_USED)
                w.used = c;
            else if (against && built_as(made, field, against, false))
                w.not = c;
        }
    w.differs = w.value ? !built_as(made, field, w.value, !w.is) : w.used || w.not;
    return w;
}

/* Returns the value to type for a wish, quoted for the shell; malloc'ed. */
static char *wished(const Wish *w)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,+-/:=@%";
    const Claim *c = w->used ? w->used : w->not;
    const char *unset = alias_unset(w->field), *value = w->value;
    if (!value && w->not && unset && !same(w->field, unset, w->not->value))
        value = unset;
    if (!value)
        value = c->row && !islower((unsigned char)*c->row->value) ? c->row->value : "VALUE";
    if (alias_on(value) || alias_off(value))
        value = names_same(value, "true") ? "true" : names_same(value, "false") ? "false" : value;
    value = alias_word(w->field, value);
    if (!value[strspn(value, safe)])
        return format("%s", value);
    char *quoted = format("%s", "'");
    for (; *value; value++) {
        char *longer = *value == '\'' ? format("%s'\\''", quoted) : format("%s%c", quoted, *value);
        free(quoted);
        quoted = longer;
    }
    return format("%s'", quoted);
}

/* Returns the number in a field's first line; 0: none. */
static long long built_number(const Made *made, const char *field)
{
    size_t n;
    const char *line = line_of(made, field, 0, &n);
    return line ? strtoll(line, NULL, 10) : 0;
}

/* Moves a wish for batch.micro to batch.global, or the other way, to the one that the recipe
 * sets. */
static void settle_batch(const Made *made, Wish *w, int n)
{
    static const char *const path[] = { "batch.micro", "batch.accum", "gpus", "batch.global" };
    enum { MICRO, ACCUM, RANKS, UPDATE, PARTS };
    Wish *of[PARTS] = { NULL };
    long long x[PARTS];
    for (int i = 0; i < PARTS; i++) {
        for (int k = 0; k < n; k++)
            of[i] = names_same(w[k].field, path[i]) ? &w[k] : of[i];
        x[i] =
            of[i] && of[i]->value ? strtoll(of[i]->value, NULL, 10) : built_number(made, path[i]);
    }
    const bool by_update = built_number(made, path[UPDATE]) != 0;
    const long long ranks = x[ACCUM] * x[RANKS];
    if (by_update && of[MICRO] && !of[UPDATE]) {
        of[MICRO]->field = path[UPDATE];
        of[MICRO]->value = format("%lld", x[MICRO] * ranks);
        of[MICRO]->differs = x[MICRO] * ranks != built_number(made, path[UPDATE]);
    } else if (!by_update && of[UPDATE] && !of[MICRO] && ranks > 0 && x[UPDATE] % ranks == 0) {
        of[UPDATE]->field = path[MICRO];
        of[UPDATE]->value = format("%lld", x[UPDATE] / ranks);
        of[UPDATE]->differs = x[UPDATE] / ranks != built_number(made, path[MICRO]);
    }
}

/* Returns what was built, as `gpus=2`; malloc'ed. */
static char *built_text(const Made *made, const char *field)
{
    size_t n;
    const char *line = line_of(made, field, 0, &n);
    char *value = line ? plain(line, n) : NULL,
         *text = value ? format("%s=%s", field, value) : format("no %s", field);
    free(value);
    return text;
}

static void append(char **list, const char *between, const char *text)
{
    char *longer = format("%s%s%s", *list ? *list : "", *list ? between : "", text);
    free(*list);
    *list = longer;
}

/* Returns the value of the field that the wishes ask for, else as built, malloc'ed; NULL: none. */
static char *value_then(const Made *made, const Wish *w, int n, const char *field)
{
    size_t length;
    const char *line = line_of(made, field, 0, &length);
    for (int i = 0; i < n; i++)
        if (w[i].differs && names_same(w[i].field, field))
            return w[i].value ? format("%s", w[i].value) : NULL;
    return line ? plain(line, length) : NULL;
}

/* Ends the program if gen has no program with the value of the wish. */
static void refuse_impossible(const Made *made, const Wish *all, int n, const Wish *w,
                              const char *value)
{
    const char *typed = w->is ? w->is : w->has ? w->has : w->used ? w->used->typed : w->not->typed;
    char *target = value_then(made, all, n, "target");
    bool other_kind = false;     /* of recipe, which has other fields */
    for (int i = 0; i < n; i++)
        other_kind = other_kind || (all[i].differs && (names_same(all[i].field, "objective") ||
                                                       names_same(all[i].field, "model.family")));
    if (!other_kind)
        built_check_field(made, typed, w->field);
    char *none = w->is && names_same(w->field, "precision")
        ? launch_precision_refused(value, target ? target : "")
        : NULL;
    if (none)
        die(EXIT_CONFIG, "%s: %s", typed, none);
    free(target);
}

/* True if the wishes include lora.rank = 0, with which gen takes no other lora field. */
static bool without_adapters(const Wish *w, int n)
{
    for (int i = 0; i < n; i++)
        if (w[i].differs && names_same(w[i].field, "lora.rank") && w[i].value &&
            alias_off(w[i].value))
            return true;
    return false;
}

/* Adds the words without which gen refuses a value, and their fields, unless the program has them
 * or a wish has the field. */
static void append_needs(const Made *made, const Wish *w, int n, const char *field,
                         const char *value, char **words, char **fields)
{
    for (int i = 0; i < alias_needs; i++) {
        const AliasNeed *need = &alias_need[i];
        size_t length;
        const char *line = line_of(made, need->other, 0, &length);
        char *built = line ? plain(line, length) : NULL;
        bool wished_too = false;
        for (int k = 0; k < n; k++)
            wished_too = wished_too || (w[k].differs && names_same(w[k].field, need->other));
        if (names_same(need->ours, field) && names_same(need->value, value) && !wished_too &&
            !alias_met(need, built)) {
            append(words, " ",
                   format("%s=%s", need->other, need->wanted + (*need->wanted == '>')));
            append(fields, "|", need->other);
        }
        free(built);
    }
}

/* Ends the program with the command that builds what is requested, in one line. */
static void refuse(const Claims *all, const Made *made, const Wish *w, int n)
{
    static const char adapters[] =
        "lora.alpha|lora.dropout|lora.targets|lora.rslora|lora.fold|lora.base|"
        "lora.modules_to_save";
    char *typed = NULL, *built = NULL, *words = NULL, *fields = NULL;
    const Alias *row = NULL;
    int differ = 0;
    for (int i = 0; i < n; i++) {
        if (!w[i].differs)
            continue;
        char *value = wished(&w[i]), *was = built_text(made, w[i].field);
        const bool whole = names_same(w[i].field, "lora.rank") && !strcmp(value, "0");
        if (names_same(w[i].field, "lora.base") && without_adapters(w, n))
            continue;
        append(&built, ", ", was);
        refuse_impossible(made, w, n, &w[i], value);
        append(&words, " ", shell_word(format("%s=%s", w[i].field, value)));
        append(&fields, "|", w[i].field);
        append_needs(made, w, n, w[i].field, value, &words, &fields);
        if (whole)
            append(&fields, "|", adapters);
        differ++;
    }
    for (int i = 0, last = -1; i < all->n; i++)
        for (int k = 0; k < n; k++) {
            const Claim *c = &all->claim[i];
            const char *field = w[k].field;
            const bool moved = !strcmp(field, "batch.global") || !strcmp(field, "batch.micro");
            const bool of =
                names_same(c->field, field) || (moved && (names_same(c->field, "batch.global") ||
                                                          names_same(c->field, "batch.micro")));
            if (!w[k].differs || !of || last == i)
                continue;
            append(&typed, ", ", c->typed);
            row = c->row;
            last = i;
        }
    char *left = names_without(made->words, fields);
    const bool notes = differ == 1 && row && *row->note;
    die(EXIT_CONFIG,
        "%s: fixed when the program was generated, with %s; to change %s: gen %s %s && make%s%s%s",
        typed, built, differ == 1 ? "it" : "them", left, words, notes ? " (" : "",
        notes ? row->note : "", notes ? ")" : "");
}

void built_check_precision(const Made *made, const char *precision, const char *target)
{
    const char *asked = launch_precision_conflict(environ, precision);
    if (!asked)
        return;
    size_t n;
    const char *objective = line_of(made, "objective", 0, &n);
    const bool only = objective && !line_of(made, "precision", 0, &(size_t){0});
    char *none = only ? NULL : launch_precision_refused(asked, target);
    char *other = only   ? format("; programs of objective=%s have no other", plain(objective, n))
                  : none ? format("; %s", none)
                         : format(", or build it with gen %s precision=%s && make",
                                  names_without(made->words, "precision"), asked);
    die(EXIT_CONFIG, "ACCELERATE_MIXED_PRECISION is %.20s, but this program was built with "
        "precision=%s: start it with --mixed_precision %s%s", asked, precision,
        strcmp(precision, "fp32") ? precision : "no", other);
}

void built_check(const Claims *all, const Made *made)
{
    Wish *w = calloc((size_t)all->n + 1, sizeof *w);
    int n = 0;
    bool differs = false;
    for (int i = 0; w && i < all->n; i++) {
        bool known = false;
        for (int k = 0; k < n; k++)
            known = known || names_same(w[k].field, all->claim[i].field);
        if (known)
            continue;
        w[n] = wish_of(all, made, all->claim[i].field);
        differs = w[n++].differs || differs;
    }
    if (!differs)
        return;
    settle_batch(made, w, n);
    refuse(all, made, w, n);
}
