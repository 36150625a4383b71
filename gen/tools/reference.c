/* reference.c -- `gen reference PAGE`: Markdown pages of the tables that gen and its programs use;
 * -o DIR writes all pages (make docs: gen/reference).
 *
 * Keeps: output depends on the rows alone; a row is one line. */
#include "gen/commands.h"
#include "gen/config/family.h"
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"
#include "runtime/objectives/owners.h"
#include "runtime/pack/pack.h"

#include <stdlib.h>
#include <string.h>

/* ---- Markdown -------------------------------------------------------------------------------- */

/* Prints a text of our tables, with `code` between backticks, as one line: runs of blanks become
 * one, and characters special to Markdown are escaped. */
static void put(Str *s, const char *text)
{
    bool code = false;
    text += strspn(text, " \n");
    for (const char *p = text; *p; p++) {
        const bool blank = *p == ' ' || *p == '\n';
        if (*p == '`')
            code = !code;
        if (blank && (p[1] == ' ' || p[1] == '\n' || !p[1]))
            continue;
        if (*p == '|' || (!code && strchr("*<>", *p)))
            str_print(s, "\\");
        str_print(s, "%c", blank ? ' ' : *p);
    }
}

/* The same as code: `a`; "" for an empty text. */
static void put_code(Str *s, const char *text)
{
    if (!*text)
        return;
    str_print(s, "`");
    for (const char *p = text; *p; p++)
        str_print(s, *p == '|' ? "\\|" : "%c", *p);
    str_print(s, "`");
}

/* Words of "a|b|c" as code, separated by commas. */
static void put_words(Str *s, const char *words)
{
    for (size_t n; *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        if (n)
            put_code(s, text_print("%.*s", (int)n, words));
        if (n && words[n])
            str_print(s, ", ");
    }
}

static void begin(Str *s, const char *title, const char *about)
{
    str_print(s,
              "# %s\n\n<!-- made by `make docs` of the tables named below: edit these -->\n\n%s\n",
              title, about);
}

/* Prints the titles of columns, separated by bars. */
static void table(Str *s, const char *columns)
{
    str_print(s, "\n| %s |\n|", columns);
    for (const char *p = columns; p; p = strchr(p, '|'), p = p ? p + 1 : p)
        str_print(s, "---|");
    str_print(s, "\n");
}

/* Prints a row: text cells; code where kinds has a c, words where it has a w. */
static void cells(Str *s, const char *kinds, const char *const *text)
{
    for (int i = 0; kinds[i]; i++) {
        str_print(s, "| ");
        (kinds[i] == 'c' ? put_code : kinds[i] == 'w' ? put_words : put)(s, text[i] ? text[i] : "");
        str_print(s, " ");
    }
    str_print(s, "|\n");
}
#define ROW(s, kinds, ...) cells(s, kinds, (const char *const[]){__VA_ARGS__})

static const char *dashed(const char *name)
{
    char *s = text_print("--%s", name);
    for (char *p = s; *p; p++)
        *p = *p == '_' ? '-' : *p;
    return s;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* ---- the pages ------------------------------------------------------------------------------- */

static void commands_page(Str *s)
{
    begin(s, "Commands of gen",
          "Generated from `gen/commands.def`, like `gen --help` and `gen COMMAND --help`.");
    table(s, "command | description");
    for (int i = 0; i < ncommands; i++) {
        const CommandRow *c = &command_row[i];
        ROW(s, "ct",
            text_print("gen%s%s%s%s", *c->word ? " " : "", c->word, *c->words ? " " : "", c->words),
            c->about);
    }
    for (int i = 0; i < ncommands; i++) {
        const char *word[64];
        const int n = command_option_words(command_row[i].word, word, 64);
        if (!n)
            continue;
        str_print(s, "\n## gen %s\n", *command_row[i].word ? command_row[i].word : "RECIPE");
        table(s, "option | description");
        for (int k = 0; k < n; k++) {
            const OptionRow *o = command_option(command_row[i].word, word[k]);
            ROW(s, "ct", text_print("%s%s%s", o->word, *o->value ? " " : "", o->value), o->about);
        }
    }
}

static const char *field_default(const FieldRow *r)
{
    return !*r->def ? "required" : *r->def == '?' ? "by a rule" : text_print("`%s`", r->def);
}

static const char *field_range(int i)
{
    const FieldRow *r = &field_row[i];
    if (r->type != FT_CHOICE)
        return text_print("%s%s%s", range_print(r->type, r->lo, r->hi, ""), *r->unit ? ", " : "",
                          r->unit);
    Str s = {0};
    const char *words = field_choices(i);
    for (size_t n; *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        str_print(&s, "%s`%.*s`", s.n ? ", " : "", (int)n, words);
    }
    return s.text;
}

static void fields_page(Str *s)
{
    begin(s, "Fields of recipes",
          "Generated from `gen/config/fields.def` and `runtime/objectives`. A field `a.b` is in "
          "the table `a` of a recipe; on the command line of gen, write `a.b=VALUE` after the "
          "recipe. `gen explain FIELD` shows one field. Bits: whether another value trains the "
          "same, differs by rounding or is another method. Recipes also set defaults of flags, "
          "`run = { ... }`: [flags](flags.md).");
    const char *group = "?";
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path, *dot = strchr(path, '.');
        const char *section = dot ? text_print("%.*s", (int)(dot - path), path) : "";
        if (strcmp(section, group)) {
            str_print(s, *section ? "\n## %s\n" : "\n## Of the recipe as a whole\n", section);
            table(s, "field | value | default | bits | objectives | description");
            group = section;
        }
        const char *doc = field_row[i].doc;
        if (i == F_model_family)
            doc = text_print("%s [families](list.md#families)", doc);
        ROW(s, "ctttwt", path, field_range(i), field_default(&field_row[i]),
            bits_name[field_row[i].bits], or_empty(field_objectives(i)), doc);
    }
}

/* Default as in --help, and those of objectives with their own. */
static const char *flag_default(int i, const char *value)
{
    Str s = {0};
    const RunFlag *f = &run_flag[i];
    const bool number = f->type == FT_INT || f->type == FT_FLOAT || f->type == FT_EVERY;
    str_print(&s, "%s", "");
    if (*value == '"')
        value = text_print("%.*s", (int)strlen(value) - 2, value + 1);
    const bool unasked = f->type == FT_INT && atof(value) < f->lo;
    if (*value && strcmp(value, "false") && !unasked &&
        !(number && f->lo > 0 && !strcmp(value, "0")))
        str_print(&s, "`%s`", value);
    for (int k = 0; k < objective_count(); k++) {
        const char *name = objective_row(k)->name, *other = objective_default(name, f->name);
        if (other)
            str_print(&s, "%s%s `%.*s`", s.n ? "; " : "", name,
                      (int)strcspn(other + (*other == '"'), "\""), other + (*other == '"'));
    }
    return s.text;
}

static void flag_row(Str *s, int i, const char *value)
{
    const RunFlag *f = &run_flag[i];
    const char *words = f->value + (*f->value == '|');
    ROW(s, "ccttwt", dashed(f->name), f->type == FT_BOOL ? "[true|false]" : words,
        flag_default(i, value), f->recipe ? "yes" : "", or_empty(run_flag_objectives(i)),
        run_flag_doc(i));
}

static void flag_section(Str *s, const char *title)
{
    str_print(s, "\n## %s\n", title);
    table(s, "flag | value | default | recipe | objectives | what it does");
}

static void flags_page(Str *s)
{
    begin(s, "Flags of the programs",
          "Generated from `runtime/run/flags.def` and `runtime/objectives`. `out/NAME/run.sh "
          "--help` shows the flags of one program with the defaults of its recipe. If the fourth "
          "column is yes, a recipe may set the default: `run = { lr = 1e-4 }`, or `run.lr=1e-4` "
          "after the recipe. A flag with objectives exists only in their programs. Of a flag given "
          "twice the last value holds, with a note, as in the trainers that it comes from; two "
          "different lists are an error, as is a flag that the command does not read. `run.sh` has "
          "further flags for several machines: "
          "[README](../../README.md#several-ranks-and-machines).");
    int flag = 0;
#define SECTION(title) flag_section(s, title);
#define FLAG(name, type, value, ...) flag_row(s, flag++, #value);
#include "runtime/run/flags.def"
}

static void runs_page(Str *s)
{
    begin(s, "Exit codes, run folders, variables",
          "Generated from `runtime/exit_codes.def`, `runtime/run/run_files.def`, "
          "`runtime/objectives` and `runtime/environment.def`.");
    str_print(s, "\n## How a program ends\n");
    table(s, "code | meaning | start again?");
#define EXIT_CODE(name, code, again, meaning) ROW(s, "ttt", #code, meaning, again);
#include "runtime/exit_codes.def"
#undef EXIT_CODE
    str_print(s,
              "\ngen itself exits with 0, or with 1 after a line with the position of the error.\n"
              "\n## What a run leaves in its folder, `--out`\n");
    table(s, "name | objectives | description");
#define RUN_FILE(name, kind, owners, about) \
    ROW(s, "cwt", name, or_empty(owners_text(OWNERS(owners))), about);
#include "runtime/run/run_files.def"
    str_print(s, "\n## Environment variables\n\nA variable `DIECAST_...` that is not in this table "
                 "ends a program with 80: it is probably misspelt.\n");
    table(s, "variable | read by | meaning | without it");
#define VARIABLE(name, who, about, without) ROW(s, "cttt", name, who, about, without);
#include "runtime/environment.def"
}

/* Words of the log before the deciding value. */
static const char *shown_as(const Objective *o)
{
    for (int i = 0; i < nmetrics; i++) {
        const MetricRow *m = &metric_row[i];
        if (!strcmp(m->objective, o->name) && !strcmp(m->of, "eval") &&
            !strcmp(m->name, o->decides))
            return text_print("%.*s", (int)strcspn(m->text, "%") - 1, m->text);
    }
    return "";
}

static void metrics_page(Str *s)
{
    begin(s, "Metrics",
          "Of the rows METRIC and TAG of `runtime/objectives`. A line of `OUT/history.jsonl` has "
          "the name, of a validation with `eval_` before it, of a count of a step the total with "
          "`num_`; OUT/runs has the tag. Ranks report their parts: a COUNT is their sum, a MEAN "
          "that sum divided by a count, EXP e to the power of such a mean.");
    for (int k = 0; k < objective_count(); k++) {
        const Objective *o = objective_row(k);
        if (o->standalone)
            continue;
        str_print(s, "\n## %s\n\n", o->name);
        put(s, o->about);
        str_print(s,
                  ". The best validation, for `--keep-best` and `--patience`, is the one with the "
                  "best `eval_%s`, which the log shows as %s.\n",
                  o->decides, shown_as(o));
        table(s, "of | name | is | of each of | better | tag of TensorBoard");
        for (int i = 0; i < nmetrics; i++)
            if (!strcmp(metric_row[i].objective, o->name)) {
                const MetricRow *m = &metric_row[i];
                ROW(s, "tctctc", !strcmp(m->of, "step") ? "a step" : "a validation", m->name,
                    m->kind, m->per, m->better, m->tag);
            }
        for (int i = 0; i < ntags; i++)
            if (!strcmp(tag_row[i].objective, o->name))
                ROW(s, "tctctc", "a record", tag_row[i].key, "", "", "", tag_row[i].tag);
    }
}

static void format_rows(Str *s, bool by_keys)
{
    static const struct { const char *name, *reads, *has, *kind, *doc; } row[] = {
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    {name, #reads, has, #kind, doc},
#include "runtime/pack/formats.def"
#undef FORMAT
    };
    table(s, by_keys ? "format | keys | a sample is | what it means"
                     : "format | reads | a sample is | what it means");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *gap = strstr(row[i].doc, "  ");
        if (!*row[i].has == by_keys)
            continue;
        const char *reads = strstr(row[i].reads, "LINES")     ? "objects of JSON, lines"
                            : !strstr(row[i].reads, "OBJECTS") ? "a whole file"
                            : strstr(row[i].reads, "TEXT")    ? "objects of JSON, a whole file"
                                                              : "objects of JSON";
        const char *is = !strcmp(row[i].kind, "PACKED") ? "a document, or a row"
                         : !strcmp(row[i].kind, "ROWS") ? "a row"
                         : !strcmp(row[i].kind, "PAIRS") ? "two rows" : "a row with marks";
        ROW(s, by_keys ? "cwtt" : "cttt", row[i].name, by_keys ? row[i].has : reads, is,
            by_keys && gap ? gap : row[i].doc);
    }
}

/* Keys that are read, counted, or end the pack. */
static void keys_section(Str *s)
{
    const char *comma = "";
    str_print(s, "\n## Keys that a format reads\n\nOther keys with content are an error, except "
                 "metadata (`--ignore-keys` skips them).\n");
    table(s, "format | keys | metadata");
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    if (*uses) \
        ROW(s, "cww", name, uses, extra);
#include "runtime/pack/formats.def"
#undef FORMAT
    str_print(s, "\nMetadata of every format: ");
#define METADATA(key) \
    str_print(s, "%s`%s`", comma, key); \
    comma = ", ";
#define CONTENT(key, why)
#define MESSAGE(keys)
#include "runtime/pack/keys.def"
#undef METADATA
#undef CONTENT
#undef MESSAGE
    str_print(s, ".\n");
}

static void data_page(Str *s)
{
    begin(s, "Formats of data",
          "Generated from `runtime/pack/formats.def`, `keys.def`, `chats.def` and `drops.def`: "
          "input of `gen pack` and of a program's `--data`. Which tokens become targets: "
          "[data](../../recipes/data.md).");
    str_print(s, "\n## By their keys\n\nA row of JSON has the first format for which it has a key "
                 "with content: null, \"\", [] and {} count as absent.\n");
    format_rows(s, true);
    str_print(s, "\n## By name, `--format` (of a program `--data-format`)\n");
    format_rows(s, false);
    keys_section(s);
    str_print(s, "\n## Chat formats, `--chat`\n\n"
                 "The default is derived from the chat template in the tokenizer's folder.\n");
    table(s, "name | known chat templates | required tokens");
    for (int i = 0, n; chat_row(i, &n); i++)
        ROW(s, "ctc", chat_row(i, &n)->name, text_print("%d", n), chat_row(i, &n)->tokens);
    str_print(s, "\n## Why samples are left out\n\n"
                 "The metadata of the packed file has the count of each reason.\n");
    table(s, "reason | samples");
#define DROP(id, name, why) ROW(s, "ct", "dropped_" name, why);
#include "runtime/pack/drops.def"
#undef DROP
    str_print(s, "\n## Packed files\n\n"
                 "One safetensors file. Its metadata name the format (`" TOKENFILE_FORMAT
                 "` or `" RECORDFILE_FORMAT
                 "`), the number of `records`, and the `columns`: `NAME=fixed` is a tensor "
                 "`[records, ...]`; `NAME=ragged` is a tensor of all elements and `NAME.offsets`, "
                 "I64 `[records + 1]`; `NAME=OTHER` has the offsets of the column OTHER. "
                 "Details: `runtime/data/recordfile.h` and `tokenfile.h`.\n");
}

/* True if the row leads to a flag or field as rows of this kind do; MEANS rows count as LINE
 * or RECIPE. */
static bool is_kind(const Alias *f, AliasKind kind)
{
    const bool means = f->kind == ALIAS_MEANS, flag = run_flag_find(f->ours) >= 0;
    return f->kind == kind || (means && kind == (flag ? ALIAS_LINE : ALIAS_FIELD));
}

/* Values that the name of a MEANS row sets, "(true: bf16, auto: bf16)"; "" for other rows. */
static const char *meanings(const Alias *f)
{
    Str s = {0};
    for (int i = 0; i < alias_meanings && f->kind == ALIAS_MEANS; i++) {
        const AliasMeaning *m = &alias_meaning[i];
        if (names_same(m->name, f->name) && !strcmp(m->ours, f->ours) && *m->value != '?')
            str_print(&s, "%s`%s`: `%s`", s.n ? ", " : " (", m->given,
                      m->value + (*m->value == '+'));
    }
    return s.n ? text_print("%s)", s.text) : "";
}

/* Other trainers' names of one of our settings, in the order of the rows. */
static void same_names(Str *s, AliasKind kind)
{
    for (int i = 0; i < alias_rows; i++) {
        const Alias *f = &alias_row[i];
        Str names = {0}, notes = {0};
        bool first = is_kind(f, kind);
        for (int k = 0; k < i; k++)
            first =
                first && !(is_kind(&alias_row[k], kind) && !strcmp(alias_row[k].ours, f->ours));
        for (int k = i; first && k < alias_rows; k++) {
            const Alias *g = &alias_row[k];
            if (!is_kind(g, kind) || strcmp(g->ours, f->ours))
                continue;
            str_print(&names, "%s`%s`%s", names.n ? ", " : "", g->name, meanings(g));
            if (*g->note && (!notes.text || !strstr(notes.text, g->note)))
                str_print(&notes, "%s%s", notes.n ? "; " : "", g->note);
        }
        if (first)
            ROW(s, kind == ALIAS_FLAG ? "ct" : "ctt",
                kind == ALIAS_FLAG ? dashed(f->ours) : f->ours, names.text,
                or_empty(notes.text));
    }
}

/* The same for other trainers' words for values of our fields. */
static void same_words(Str *s)
{
    static const struct { const char *ours, *theirs, *word; } row[] = {
#define WORD(ours, theirs, word) {ours, theirs, word},
#include "runtime/files/aliases.def"
    };
    const int n = (int)(sizeof row / sizeof *row);
    for (int i = 0; i < n; i++) {
        Str names = {0};
        bool first = true;
        for (int k = 0; k < n; k++)
            if (!strcmp(row[k].ours, row[i].ours) && !strcmp(row[k].word, row[i].word)) {
                first = first && k >= i;
                str_print(&names, "%s`%s`", names.n ? ", " : "", row[k].theirs);
            }
        if (first)
            ROW(s, "cct", row[i].ours, row[i].word, names.text);
    }
}

static void noted_names(Str *s, AliasKind one, AliasKind other)
{
    for (int i = 0; i < alias_rows; i++)
        if (alias_row[i].kind == one || alias_row[i].kind == other)
            ROW(s, "ct", alias_row[i].name, alias_row[i].note);
}

/* Keys of settings files that are nested, or that another key changes. */
static void nested_names(Str *s)
{
    static const struct { const char *path, *name; } path[] = {
#define PATH(path, name) {path, name},
#include "runtime/files/aliases.def"
    };
    static const struct { const char *other, *name, *means; } with_other[] = {
#define BESIDE(other, theirs, name) {other, theirs, name},
#include "runtime/files/aliases.def"
    };
    static const char *const section_name[] = {
#define SECTION(path) path,
#include "runtime/files/aliases.def"
    };
    Str sections = {0};
    for (size_t i = 0; i < sizeof section_name / sizeof *section_name; i++)
        str_print(&sections, "%s`%s`", i ? ", " : "", section_name[i]);
    str_print(s,
              "\n## Nested keys of settings files\n\nIn these sections a key has the same meaning "
              "as outside of them: %s. A key of any other section is read by its path, or listed "
              "as not carried over.\n",
              sections.text);
    table(s, "path | read as");
    for (size_t i = 0; i < sizeof path / sizeof *path; i++)
        ROW(s, "cc", path[i].path, path[i].name);
    for (size_t i = 0; i < sizeof with_other / sizeof *with_other; i++)
        ROW(s, "tc",
            text_print("`%s` in a file with `%s`", with_other[i].name, with_other[i].other),
            with_other[i].means);
}

/* Names of earlier releases, and current ones. */
static void former_names(Str *s)
{
    for (int i = 0; i < renamed_rows; i++)
        ROW(s, "cct", renamed_row[i].before, renamed_row[i].now,
            strchr(renamed_row[i].now, '.') ? "" : "a flag of programs");
    for (const RenamedWord *w = renamed_word_row; *w->field; w++)
        ROW(s, "cct", w->before, w->now, text_print("a value of `%s`", w->field));
}

static void names_page(Str *s)
{
    begin(s, "Names of other trainers",
          "Generated from `runtime/files/aliases.def`: settings of transformers, TRL, PEFT, "
          "accelerate, torchrun, axolotl, torchtune, LLaMA-Factory, DeepSpeed, nanoGPT and llm.c. "
          "- and _ are equivalent. gen and its programs answer each of these names with ours, as "
          "does `gen explain NAME`. `gen FILE` prints a settings file (YAML, JSON, TOML or "
          "nanoGPT's Python) as a recipe. How the work goes there and here: [from other "
          "trainers](../../recipes/other-trainers.md).");
    str_print(s, "\n## Flags that programs take by these names, too\n");
    table(s, "flag | there");
    same_names(s, ALIAS_FLAG);
    str_print(s, "\n## Flags of another meaning\n\nA program refuses the name and prints the line "
                 "to type.\n");
    table(s, "there | here | why");
    for (int i = 0; i < alias_rows; i++)
        if (is_kind(&alias_row[i], ALIAS_LINE))
            ROW(s, "cct", alias_row[i].name,
                text_print("%s %s", dashed(alias_row[i].ours),
                           alias_value(&alias_row[i], NULL)),
                text_print("%s%s", alias_row[i].note, meanings(&alias_row[i])));
    str_print(s, "\n## Fields of the recipe\n\nParentheses show their values and ours, if these "
                 "differ.\n");
    table(s, "field | there | note");
    same_names(s, ALIAS_FIELD);
    str_print(s, "\n## Values\n");
    table(s, "of | here | there");
    same_words(s);
    nested_names(s);
    str_print(s, "\n## Names of earlier releases\n\nThey still work, with a line that shows the "
                 "current name; both names together are an error.\n");
    table(s, "before | now | note");
    former_names(s);
    str_print(s, "\n## No setting here\n");
    table(s, "there | here");
    noted_names(s, ALIAS_NOTE, ALIAS_ALWAYS);
    str_print(s, "\n## Not supported\n");
    table(s, "there | instead");
    noted_names(s, ALIAS_NONE, ALIAS_NONE);
}

/* A JSON member as text, bytes with unit; "": null or none. */
static const char *member(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    const char *text = cJSON_IsString(v) || cJSON_IsRaw(v) ? v->valuestring : "";
    return !strcmp(text, "none")          ? ""
           : !strcmp(key, "device_bytes") ? text_bytes(strtoll(text, NULL, 10))
                                          : text;
}

/* Prints a section of gen list; keys of its columns, separated by bars. */
static void section(Str *s, const char *name, const char *title, const char *columns,
                    const char *kinds, const char *keys)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *o;
    list_rows(name, list);
    str_print(s, "\n## %s\n", title);
    table(s, columns);
    cJSON_ArrayForEach(o, list) {
        const char *text[8], *p = keys;
        int n = 0;
        for (size_t k; *p && n < 8; p += k + (p[k] == '|')) {
            k = strcspn(p, "|");
            text[n++] = member(o, text_print("%.*s", (int)k, p));
        }
        cells(s, kinds, text);
    }
    cJSON_Delete(list);
}

static void list_page(Str *s)
{
    begin(s, "What there is",
          "Output of `gen list`: recipes, shapes of models, families, objectives, targets and "
          "cards. Filter recipes with `gen list recipes objective=dpo target=cpu`, `fits=24GiB` or "
          "`adapter=lora`; `card=rtx4090` lists those that fit this card. `gen info NAME` "
          "summarises a recipe.");
    section(s, "recipes", "Recipes, `recipes/NAME.lua`",
            "recipe | objective | family | target | ranks | precision | adapter | description",
            "cttttttt", "name|objective|family|target|gpus|precision|adapter|about");
    section(s, "objectives", "Objectives", "name | description", "ct", "name|about");
    section(s, "models", "Shapes of models, `use \"models/NAME\"`", "name | description", "ct",
            "name|about");
    str_print(s, "\n## Families\n\n"
                 "Values of `model.family`, and the defaults of other fields of `model` and "
                 "`lora`.\n");
    table(s, "name | description | classes of transformers | defaults");
    for (int i = 0; i < family_count(); i++) {
        const Family *f = family_row(i);
        ROW(s, "cttt", f->name, f->about, family_classes(f->name), family_defaults(f));
    }
    section(s, "targets", "Targets, `target`", "name | description | memory of a rank",
            "ctt", "name|about|device_bytes");
    section(s, "cards", "Cards, `card=NAME` or `--card NAME` with any recipe",
            "name | description | target | memory of a rank", "cttt",
            "name|about|target|device_bytes");
}

/* ---- the command ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*print)(Str *s);
} page_row[] = {{"commands", commands_page}, {"list", list_page},  {"fields", fields_page},
                {"flags", flags_page},       {"runs", runs_page},  {"metrics", metrics_page},
                {"data", data_page},         {"names", names_page}};
enum { PAGES = sizeof page_row / sizeof *page_row };

static const char *page_text(int i)
{
    Str s = {0};
    page_row[i].print(&s);
    return s.text;
}

int reference_main(int argc, char **argv)
{
    const char *name[PAGES];
    for (int i = 0; i < PAGES; i++) {
        name[i] = page_row[i].name;
        if (argc == 2 && !strcmp(argv[1], name[i])) {
            fputs(page_text(i), stdout);
            return 0;
        }
    }
    if (argc == 3 && !strcmp(argv[1], "-o")) {
        for (int i = 0; i < PAGES; i++) {
            const char *text = page_text(i);
            file_write_if_changed(text_print("%s/%s.md", argv[2], name[i]), text, strlen(text),
                                  false);
        }
        return 0;
    }
    if (argc >= 2 && !strcmp(argv[1], "-o"))
        err((Loc){0}, "reference: -o: needs a folder after it, and nothing else");
    const char *near = argc == 2 ? text_nearest(argv[1], name, PAGES) : NULL;
    err((Loc){0},
        "reference: takes -o DIR or one of commands, list, fields, flags, runs, metrics, data, "
        "names%s%s",
        argc > 1 ? text_print(", got %s", argv[1]) : "",
        near ? text_print("; did you mean %s?", near) : "");
}
