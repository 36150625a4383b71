/* manual.c -- `gen man PAGE`: manual pages gen(1), diecast-train(1), diecast-recipe(5), of the tables.
 *
 * Out:   roff with the macros of man(7). */
#include "gen/gen.h"

#include <ctype.h>
#include <string.h>

#include "runtime/pack/pack.h"

/* Text of a page; lines of its own become breaks. */
static void put(const char *text)
{
    bool begin = true;
    for (const char *p = text; *p; p++) {
        if (begin && (*p == '.' || *p == '\''))
            fputs("\\&", stdout);
        begin = *p == '\n';
        if (*p == '\n')
            fputs("\n.br\n", stdout);
        else if (*p == '\\')
            fputs("\\e", stdout);
        else if (*p == '-')
            fputs("\\-", stdout);
        else if (*p == '|')
            fputs("|\\:", stdout);          /* a line may end here */
        else
            putchar(*p);
    }
    putchar('\n');
}

/* A tagged paragraph. */
static void item(const char *name, const char *value, const char *text)
{
    printf(".TP\n\\fB");
    for (const char *p = name; *p; p++)
        if (*p == '-')
            fputs("\\-", stdout);
        else
            putchar(*p);
    printf("\\fR");
    if (*value)
        putchar(' ');
    put(value);
    put(text);
}

static char *text_upper(const char *text)
{
    char *s = text_copy(text);
    for (char *p = s; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return s;
}

static void head(const char *name, int section, const char *about)
{
    printf(".\\\" made by `gen man`\n.TH %s %d \"\" \"%s\" \"Diecast\"\n.ad l\n.nh\n.SH NAME\n", name, section,
        GEN_VERSION);
    put(text_print("%s - %s", name, about));
}

static void gen_page(void)
{
    head("gen", 1, "turns a recipe into the source of one training program");
    printf(".SH SYNOPSIS\n");
    for (int i = 0; i < ncommands; i++) {
        if (i)
            printf(".br\n");
        printf(".B gen %s\n", *command_row[i].word == '-' ? text_print("\\-\\-%s", command_row[i].word + 2)
                                                          : command_row[i].word);
        if (*command_row[i].words)
            put(command_row[i].words);
    }
    printf(".SH DESCRIPTION\n");
    put("A recipe is a Lua file that returns a table: diecast-recipe(5). gen writes the folder out/NAME with the "
        "source of a program that trains as the recipe says; make builds it; its flags are in diecast-train(1).");
    printf(".SH COMMANDS\n");
    for (int i = 0; i < ncommands; i++)
        item(*command_row[i].word ? command_row[i].word : "RECIPE", "", command_row[i].about);
    for (int i = 0; i < ncommands; i++) {
        const char *word[64];
        const int n = command_option_words(command_row[i].word, word, 64);
        if (!n)
            continue;
        printf(".SH OPTIONS OF %s\n", *command_row[i].word ? command_row[i].word : "RECIPE");
        for (int k = 0; k < n; k++) {
            const OptionRow *o = command_option(command_row[i].word, word[k]);
            item(o->word, o->value, o->about);
        }
    }
    printf(".SH EXIT STATUS\n");
    item("0", "", "done; of diff: the two are the same; of doctor: it builds and runs here");
    item("1", "", "a mistake, with a line that says where and what was wanted; of diff: they differ");
    printf(".SH SEE ALSO\n");
    put("diecast-train(1), diecast-recipe(5)");
}

static char *dashed(const char *name)
{
    char *s = text_print("--%s", name);
    for (char *p = s; *p; p++)
        *p = *p == '_' ? '-' : *p;
    return s;
}

static void print_flag(int i)
{
    const RunFlag *f = &run_flag[i];
    const char *of = run_flag_objectives(i);
    item(dashed(f->name), f->type == FT_BOOL ? "[true|false]" : f->value + (*f->value == '|'),
         of ? text_print("%s; of the objective %s", run_flag_doc(i), of) : run_flag_doc(i));
}

static void train_page(void)
{
    head("diecast-train", 1, "flags of the training programs that gen writes");
    printf(".SH SYNOPSIS\n.B out/NAME/run.sh\n");
    put("[--FLAG VALUE ...]");
    printf(".br\n.B out/NAME/train\n");
    put("[--FLAG VALUE ...]");
    printf(".SH DESCRIPTION\n");
    put("run.sh starts the program once a rank. Flags that are for some objectives alone say so; programs of others "
        "refuse them. Defaults are those of the recipe, run = {...}, else those that --help shows.");
    int i = 0;
#define SECTION(title) printf(".SH %s\n", text_upper(title));
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) print_flag(i++);
#include "runtime/run/flags.def"
    printf(".SH EXIT STATUS\n");
#define EXIT_CODE(name, code, again, meaning) \
    item(#code, "", text_print("%s; may be started again: %s", meaning, again));
#include "runtime/exit_codes.def"
#undef EXIT_CODE
    printf(".SH FILES\n");
#define LEAF(name, kind, objectives, about) \
    item(text_print("OUT/%s", name), "", \
         *objectives ? text_print("%s; of the objective %s", about, objectives) : about);
#include "runtime/run/leaves.def"
    printf(".SH ENVIRONMENT\n");
#define VARIABLE(name, who, about, without) \
    item(name, "", text_print("%s; read by %s; without it: %s", about, who, without));
#include "runtime/environment.def"
    printf(".SH SEE ALSO\n");
    put("gen(1), diecast-recipe(5)");
}

static void recipe_page(void)
{
    head("diecast-recipe", 5, "fields of recipes");
    printf(".SH DESCRIPTION\n");
    put("A recipe is a Lua file that returns a table. A field a.b stands in the table a; on the command line of gen "
        "it is the word a.b=VALUE.");
    printf(".SH FIELDS\n");
    for (int i = 0; i < NFIELDS; i++) {
        const FieldRow *r = &field_row[i];
        item(r->path, "", text_print("%s%s%s%s\n%s", range_print(r->type, r->lo, r->hi, field_choices(i)),
                                     *r->unit ? text_print(", %s", r->unit) : "",
                                     !*r->def         ? "; has to be set"
                                     : *r->def == '?' ? ""
                                                      : text_print("; default %s", r->def),
                                     field_objectives(i) ? text_print("; of the objective %s", field_objectives(i))
                                         : "",
                                     r->doc));
    }
    printf(".SH RUN\n");
    put("Defaults of flags of the program, run = {...}; diecast-train(1) says what they do:");
    for (int i = 0; i < nrun_flags; i++)
        if (run_flag[i].recipe)
            printf(".br\nrun.%s\n", run_flag[i].name);
    printf(".SH SEE ALSO\n");
    put("gen(1), diecast-train(1)");
}

int manual_main(int argc, char **argv)
{
    static const struct { const char *name; void (*print)(void); } page[] = {
        {"gen", gen_page}, {"diecast-train", train_page}, {"diecast-recipe", recipe_page}};
    const char *name[3];
    for (int i = 0; i < 3; i++) {
        name[i] = page[i].name;
        if (argc == 2 && !strcmp(argv[1], page[i].name)) {
            page[i].print();
            return 0;
        }
    }
    const char *near = argc == 2 ? text_nearest(argv[1], name, 3) : NULL;
    err((Loc){0}, "man: want gen, diecast-train or diecast-recipe%s%s", argc > 1 ? text_print(", got %s", argv[1]) : "",
        near ? text_print("; did you mean %s?", near) : "");
}
