/* main.c -- command line of gen, and the pipeline of rooms from recipe to program. */
#include "gen/commands.h"
#include "gen/config/alias.h"
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"
#include "gen/graph/objectives.h"
#include "gen/lower/lower.h"
#include "gen/tools/kept_choice.h"
#include "gen/tools/answer.h"
#include "gen/tools/container.h"
#include "gen/tools/fit_table.h"
#include "gen/tools/job.h"
#include "gen/tools/packing_csv.h"
#include "gen/tools/tools.h"

#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char version[] = GEN_VERSION;
static const char *const room_name[] = {"recipe", "config", "graph", "fuse", "part", "plan"};
enum { FIRST_IR = 2, ROOMS = sizeof room_name / sizeof *room_name };

typedef struct {
    const char *recipe, *out;        /* out NULL: out/NAME */
    const char *stop;                /* room whose text to print; NULL: none */
    const char *from;                /* room whose text the file `recipe` holds; NULL: a recipe */
    bool roundtrip;
    bool locked;                     /* everything must be tuned */
    bool force;                      /* overwrite runs of another model and foreign files */
    bool insist, by_nvcc;            /* of gen check */
    const char *cubins;              /* of gen check: folder for machine code */
    bool work;                       /* of gen plan */
    const char *snapshot;            /* of gen container: time of its packages */
    const char *rows;                /* of gen tune: output of the tuner from another machine */
    const char *base, *allow;        /* of gen diff */
    FitOptions fit;
    char **override;
    int noverrides;
} Command;

/* Index of a room; -1: no such room. */
static int find_room(const char *name)
{
    for (int i = 0; i < ROOMS; i++)
        if (!strcmp(room_name[i], name))
            return i;
    return -1;
}

/* ---- texts of the rooms -------------------------------------------------------------------- */

static void print_rval(Str *s, const Rval *r, const char *path)
{
    FieldValue v = {.i = r->kind == RV_BOOL ? r->b : r->i, .f = r->f, .s = r->s};
    static const FieldType type[] = {[RV_BOOL] = FT_BOOL, [RV_INT] = FT_INT, [RV_FLOAT] = FT_FLOAT,
                                     [RV_STRING] = FT_STRING};
    if (r->kind == RV_TABLE) {
        for (int i = 0; i < r->nitems; i++)
            print_rval(s, r->item[i], text_print("%s[%d]", path, i + 1));
        for (int i = 0; i < r->nkeys; i++)
            print_rval(s, r->value[i], text_print("%s%s%s", path, *path ? "." : "", r->key[i]));
        return;
    }
    const char *text = r->kind == RV_NIL     ? "nil"
                       : r->kind == RV_OTHER ? r->s
                                             : value_print(type[r->kind], &v);
    if (r->loc.file)
        str_print(s, "%s = %s  # %s:%d\n", path, text, r->loc.file, r->loc.line);
    else
        str_print(s, "%s = %s  # command line\n", path, text);
}

/* Ends the program if the texts differ, naming the first line that does. */
static void same_text(const char *room, const char *a, const char *b)
{
    for (int line = 1;; line++) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || strncmp(a, b, n) || a[n] != b[m]) {
            printf("not the same: %s line %d\n  printed: %.*s\n  again:   %.*s\n", room, line,
                   (int)n, a, (int)m, b);
            exit(1);
        }
        if (!a[n])
            break;
        a += n + 1;
        b += m + 1;
    }
    printf("same: %s\n", room);
}

/* After a room: prints its text and ends the program if requested; checks that the text reads
 * back. */
static void config_left(const Command *cmd, Config *c)
{
    bug_after("config", cmd->recipe);
    if (cmd->stop && !strcmp(cmd->stop, "config")) {
        fputs(config_print(c), stdout);
        exit(0);
    }
    if (cmd->roundtrip)
        same_text("config", config_print(c), config_print(config_parse(config_print(c), "config")));
}

static void graph_left(const Command *cmd, Graph *g, const char *room)
{
    bug_after(room, cmd->recipe);
    const char *text = ir_print(g);
    if (cmd->stop && !strcmp(cmd->stop, room)) {
        fputs(text, stdout);
        exit(0);
    }
    g->text = text;
    if (cmd->roundtrip)
        same_text(room, text, ir_print(ir_parse(text, room)));
}

/* ---- the rooms ----------------------------------------------------------------------------- */

/* Finds the recipe of a room's text, next to which the lock file is: in the project of the folder
 * that has the text as ir/plan.ir, else next to the text, in this folder or below gen's root. */
static void find_recipe(Graph *g, const char *file)
{
    const char *recipe = g->setting[SETTING_recipe].text, *slash = strrchr(file, '/');
    const char *folder = slash ? text_print("%.*s", (int)(slash - file), file) : ".";
    const bool emitted = !strcmp(folder, "ir") ||
                         (strlen(folder) > 3 && !strcmp(folder + strlen(folder) - 3, "/ir"));
    char *looked;
    const char *found =
        emit_recipe(emitted ? emit_project(text_print("%s/..", folder)) : folder, recipe, &looked);
    if (found) {
        recipe_name_set(found, NULL, recipe);
        g->setting[SETTING_recipe].text = found;
    } else if (!strcmp(g->target->backend, "cuda"))
        err((Loc){file, 0},
            "was made from the recipe %s, which is in none of %s; gen needs its lock file: run gen "
            "in the folder of the recipe",
            recipe, looked);
}

/* Reads and checks the text of a room. */
static Graph *read_text(const Command *cmd)
{
    static void (*const check[])(const Graph *) = {check_graph, check_fuse, check_part, check_plan};
    size_t n = strlen(cmd->recipe);
    if (n < 3 || strcmp(cmd->recipe + n - 3, ".ir"))
        err((Loc){0}, "--from %s: takes the text of a room, FILE.ir, got %s", cmd->from,
            cmd->recipe);
    char *text = file_text(cmd->recipe, 1 << 28, &n);
    if (!text)
        err((Loc){0}, "cannot read %s: %s", cmd->recipe, strerror(errno));
    if (strlen(text) != n)
        err((Loc){cmd->recipe, 0}, "has a NUL byte; it must be text");
    Graph *g = ir_parse(text, cmd->recipe);
    int room = find_room(g->room);
    if (room < FIRST_IR)
        err((Loc){cmd->recipe, 1}, "names the room %s, which has no such text", g->room);
    if (strcmp(g->room, cmd->from))
        err((Loc){cmd->recipe, 1}, "is the text of %s: use --from %s", g->room, g->room);
    bug_in_text(cmd->recipe, text);
    for (int i = FIRST_IR; i <= room; i++)
        check[i - FIRST_IR](g);
    find_recipe(g, cmd->recipe);
    return g;
}

/* Runs the rooms after the one that made g. c: NULL without a recipe. */
static Graph *later_rooms(const Command *cmd, Graph *g, Config *c)
{
    int done = find_room(g->room);
    graph_left(cmd, g, room_name[done]);
    if (done < find_room("fuse")) {
        fuse_run(g);
        check_fuse(g);
        graph_left(cmd, g, "fuse");
    }
    if (done < find_room("part")) {
        part_run(g);
        check_part(g);
        graph_left(cmd, g, "part");
    }
    if (done < find_room("plan")) {
        plan_run(g);
        check_plan(g);
    }
    fit_refuse(g, c);
    if (done < find_room("plan"))
        graph_left(cmd, g, "plan");
    return g;
}

/* Stores the Config in *config, NULL for a room's text. Returns NULL for a standalone objective. */
static Graph *run_rooms(const Command *cmd, Config **config)
{
    *config = NULL;
    if (cmd->from)
        return later_rooms(cmd, read_text(cmd), NULL);
    Rval *recipe = recipe_load(cmd->recipe, cmd->override, cmd->noverrides);
    if (cmd->stop && !strcmp(cmd->stop, "recipe")) {
        err_flush();
        Str s = {0};
        print_rval(&s, recipe, "");
        fputs(s.n ? s.text : "", stdout);
        exit(0);
    }
    Config *c = *config = config_fill(recipe, cmd->recipe);
    check_config(c);
    config_left(cmd, c);
    const char *objective = config_text(c, F_objective);
    if (objective_find(objective)->standalone && cmd->stop)
        err(config_loc(c, F_objective),
            "-d %s: the objective %s trains no model of layers, so there is no such text; use -d "
            "recipe or -d config",
            cmd->stop, objective);
    if (objective_find(objective)->standalone) {
        standalone_fields(c);
        config_all_read(c);
        return NULL;
    }
    choose_kept(c);
    Graph *g = graph_build(c);
    check_graph(g);
    return later_rooms(cmd, g, c);
}

static void emit_graph(const Command *cmd, const Graph *g, const char *out)
{
    bool required = !strcmp(g->setting[SETTING_tune].text, "required");
    emit_run(g, out, cmd->force, required || cmd->locked);
    lock_note();
}

static void generate(const Command *cmd)
{
    Config *c;
    Graph *g = run_rooms(cmd, &c);
    if (cmd->roundtrip)
        return;
    const char *name = g ? g->setting[SETTING_name].text : c->name;
    const char *out = cmd->out ? cmd->out : text_print("out/%s", name);
    if (!g)
        standalone_emit(c, out, cmd->force);
    else
        emit_graph(cmd, g, out);
    if (!g)
        printf("%s: %s, %s; build it: make -C %s\n", out, c->v[F_target].s, c->v[F_objective].s,
               text_shell(out));
    else
        printf("%s: %s, %lld rank%s, %s a rank planned; build it: make -C %s\n", out,
               g->target->name, (long long)g->ranks, g->ranks == 1 ? "" : "s",
               text_bytes(g->arena_bytes), text_shell(out));
}
static void plan(const Command *cmd)
{
    Config *c;
    Graph *g = run_rooms(cmd, &c);
    if (cmd->work && !g)
        err(config_loc(c, F_objective),
            "plan: --work: the objective %s trains no model of layers; its time is not modelled",
            c->v[F_objective].s);
    if (cmd->work)
        report_work(g, c, stdout);
    else if (g)
        report_plan(g, c, stdout);
    else
        report_standalone(c, false, stdout);
}

/* ---- the command line ---------------------------------------------------------------------- */

/* Options of commands.def: name of the value in messages (NULL: a flag without value) and its field
 * in Command, a text or a bool. */
static const struct {
    const char *word, *wants;
    size_t at;
} option[] = {
    {"-o", "folder", offsetof(Command, out)},
    {"-d", "room", offsetof(Command, stop)},
    {"--from", "room and the file of its text", offsetof(Command, from)},
    {"--rows", "file", offsetof(Command, rows)},
    {"--base", "file of gen plan --json, or none,", offsetof(Command, base)},
    {"--allow", "size, such as 2GiB, or any,", offsetof(Command, allow)},
    {"--snapshot", "time", offsetof(Command, snapshot)},
    {"--gpus", "number", offsetof(Command, fit.gpus)},
    {"--host-gib", "number", offsetof(Command, fit.host_gib)},
    {"--exact", NULL, offsetof(Command, fit.exact)},
    {"--all", NULL, offsetof(Command, fit.all)},
    {"--roundtrip", NULL, offsetof(Command, roundtrip)},
    {"--locked", NULL, offsetof(Command, locked)},
    {"--force", NULL, offsetof(Command, force)},
    {"--insist", NULL, offsetof(Command, insist)},
    {"--nvcc", NULL, offsetof(Command, by_nvcc)},
    {"--cubins", "folder", offsetof(Command, cubins)},
    {"--work", NULL, offsetof(Command, work)},
};
enum { OPTIONS = sizeof option / sizeof *option };

/* Ends the program for an option that gen does not have: perhaps a flag of the training program, or
 * a field. */
static void unknown_option(const char *command, const char *word, const char *next)
{
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(option[i].word, word))
            err((Loc){0}, "%s is not an option of this command; `gen --help` lists its commands",
                word);
    const char *bare = word + strspn(word, "-"), *equal = strchr(bare, '=');
    const char *name = renamed_name(equal ? text_print("%.*s", (int)(equal - bare), bare) : bare);
    const char *given = equal ? equal + 1 : next && *next != '-' ? next : NULL;
    const char *value = given ? given : "VALUE";
    const Alias *row = alias_find(name);
    for (int i = 0; i < NFIELDS; i++)
        if (names_same(field_row[i].path, name))
            err((Loc){0}, "--%s: fields are words without --: %s=%s", name, field_row[i].path,
                value);
    const int flag = run_flag_typed(text_print("--%s", bare));
    if (flag >= 0)
        err((Loc){0}, "--%s is a flag of the training program: out/NAME/run.sh --%s %s%s", name,
            run_flag[flag].name, value,
            run_flag[flag].recipe
                ? text_print("; its default, here: run.%s=%s", run_flag[flag].name, value)
                : "");
    if (row)
        err((Loc){0}, "--%s: %s", name, alias_typed(row, given));
    command_unknown_option(command, word);
}

/* Stores argv[*i] and its value if it is an option of the command; returns false if it is not. */
static bool take_option(Command *cmd, const char *command, int argc, char **argv, int *i)
{
    const char *word = argv[*i];
    bool known = command_option(command, word);
    for (int k = 0; known && k < OPTIONS; k++) {
        if (strcmp(word, option[k].word))
            continue;
        char *at = (char *)cmd + option[k].at;
        if (!option[k].wants)
            *(bool *)at = true;
        else if (*i + 1 == argc)
            err((Loc){0}, "%s: needs a %s after it", word, option[k].wants);
        else
            *(const char **)at = argv[++*i];
        return true;
    }
    return false;
}

/* Ends the program unless word is a room with index `first` or later. */
static void want_room(const char *before, const char *word, int first)
{
    if (find_room(word) >= first)
        return;
    const char *near = text_nearest(word, room_name + first, ROOMS - first);
    Str all = {0};
    for (int i = first; i < ROOMS; i++)
        str_print(&all, "%s%s", i == first ? "" : i == ROOMS - 1 ? " or " : ", ", room_name[i]);
    err((Loc){0}, "%s %s: no %s; %s", before, word,
        first ? "room with a text to continue from" : "such room",
        near ? text_print("did you mean %s?", near) : text_print("use %s", all.text));
}

/* Checks the arguments of --from ROOM FILE. */
static Command check_from(Command cmd)
{
    want_room("--from", cmd.from, FIRST_IR);
    if (cmd.noverrides)
        err((Loc){0}, "--from %s: %s: a text has no fields; edit it, or start from the recipe",
            cmd.from, cmd.override[0]);
    if (cmd.roundtrip)
        err((Loc){0}, "--from and --roundtrip: one or the other; --roundtrip needs a recipe");
    if (cmd.out)
        path_check("-o", cmd.out);
    if (cmd.stop) {
        want_room("-d", cmd.stop, FIRST_IR);
        if (find_room(cmd.stop) < find_room(cmd.from))
            err((Loc){0}, "-d %s: comes before %s, the room of --from", cmd.stop, cmd.from);
    }
    return cmd;
}

/* Ends the program if argv[i] is the field of `FIELD = VALUE`, typed with blanks. */
static void check_blanks(int argc, char **argv, int i)
{
    const char *equal = i + 1 < argc && *argv[i + 1] == '=' ? argv[i + 1] : NULL,
               *value = !equal ? NULL : equal[1] ? equal + 1 : i + 2 < argc ? argv[i + 2] : "";
    if (equal)
        err((Loc){0}, "%s %s: write it without blanks: %s=%s", argv[i], equal, argv[i], value);
}

/* Parses options, one recipe and overrides. command: "": none was typed. */
static Command parse_words(int argc, char **argv, const char *command)
{
    Command cmd = {.override = arena_new((size_t)argc * sizeof(char *) + 1)};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (*word == '-') {
            if (!take_option(&cmd, command, argc, argv, &i))
                unknown_option(command, word, i + 1 < argc ? argv[i + 1] : NULL);
        } else if (!cmd.recipe && (!strchr(word, '=') || strchr(word, '/')))
            cmd.recipe = word;
        else if (strchr(word, '='))
            cmd.override[cmd.noverrides++] = argv[i];
        else {
            check_blanks(argc, argv, i);
            err((Loc){0}, "%s: takes one recipe, and field=value words; %s is the recipe", word,
                cmd.recipe);
        }
    }
    if (!cmd.recipe && cmd.out && cmd.locked && !cmd.noverrides)
        cmd.noverrides = emit_again(cmd.out, &cmd.recipe, &cmd.override);
    if (!cmd.recipe)
        err((Loc){0}, "name a recipe, for example recipes/cpu_tiny.lua; `gen list` shows them");
    path_check("recipe", cmd.recipe);
    if (cmd.from)
        return check_from(cmd);
    size_t length = strlen(cmd.recipe);
    if (length > 3 && !strcmp(cmd.recipe + length - 3, ".ir"))
        err((Loc){cmd.recipe, 0}, "is the text of a room; use: gen --from ROOM %s", cmd.recipe);
    cmd.recipe = recipe_find(cmd.recipe);
    path_check("recipe", cmd.recipe);            /* it may be in gen's own folder */
    if (cmd.out)
        path_check("-o", cmd.out);
    if (cmd.stop)
        want_room("-d", cmd.stop, 0);
    return cmd;
}

static int run_plan(int argc, char **argv)
{
    if (new_is_folder(argc, argv))
        return new_plan_main(argc, argv);
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    plan(&cmd);
    return 0;
}

static int run_info(int argc, char **argv)
{
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    Config *c;
    Graph *g = run_rooms(&cmd, &c);
    if (g)
        report_info(g, c, stdout);
    else
        report_standalone(c, true, stdout);
    return 0;
}

static int run_fit(int argc, char **argv)
{
    if (new_is_folder(argc, argv))
        return new_fit_main(argc, argv);
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    return fit_run(cmd.recipe, cmd.override, cmd.noverrides, &cmd.fit);
}

static int run_check(int argc, char **argv)
{
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    Config *c;
    Graph *g = run_rooms(&cmd, &c);
    if (!g) {
        check_nothing(c->recipe, target_find(c->v[F_target].s));
        return 0;
    }
    return check_kernels(g, cmd.insist, cmd.by_nvcc, cmd.cubins);
}

static int run_tune(int argc, char **argv)
{
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    Config *c;
    Graph *g = run_rooms(&cmd, &c);
    if (!g)
        err(config_loc(c, F_objective),
            "the objective %s has no matrix products or kernels to measure", c->v[F_objective].s);
    return tune_run(g, cmd.out ? cmd.out : text_print("out/%s", g->setting[SETTING_name].text),
                    cmd.rows);
}

/* RECIPE [FIELD=VALUE ...], or only options, for a container of gen. */
static int run_container(int argc, char **argv)
{
    Str words = {0};
    Command cmd = {.recipe = NULL};
    bool recipe = false;
    for (int i = 1; i < argc; i++) {
        const bool dashed = *argv[i] == '-', value = i > 1 && !strcmp(argv[i - 1], "--snapshot");
        recipe |= !dashed && !value;
        if (!dashed && !value)
            str_print(&words, "%s%s", words.n ? " " : "", text_shell(argv[i]));
    }
    for (int i = 1; i < argc && !recipe; i++)
        if (!take_option(&cmd, argv[0], argc, argv, &i))
            unknown_option(argv[0], argv[i], NULL);
    Config *c = NULL;
    Graph *g = NULL;
    if (recipe) {
        cmd = parse_words(argc - 1, argv + 1, argv[0]);
        g = run_rooms(&cmd, &c);
    }
    const char *command =
        text_print("gen container%s%s%s%s", words.n ? " " : "", words.n ? words.text : "",
                   cmd.snapshot ? " --snapshot " : "", cmd.snapshot ? cmd.snapshot : "");
    container_print(command, words.n ? words.text : "", c, g, cmd.snapshot, stdout);
    return 0;
}

static int run_launch(int argc, char **argv)
{
    Str words = {0}, typed = {0};
    for (int i = 0; i < argc; i++)
        str_print(&typed, " %s", text_shell(argv[i]));
    const JobWords job = job_words(&argc, argv);
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    for (int i = 1; i < argc; i++)
        str_print(&words, "%s%s", words.n ? " " : "", text_shell(argv[i]));
    Config *c;
    Graph *g = run_rooms(&cmd, &c);
    job_print(&job, text_print("gen%s", typed.text), words.text, c, g, stdout);
    return 0;
}

static int run_doctor(int argc, char **argv)
{
    if (argc == 1)
        return doctor_run(NULL, NULL, answer_wanted());
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    Config *c;
    Graph *g = run_rooms(&cmd, &c);
    return doctor_run(g, c, answer_wanted());
}

static int run_cost(int argc, char **argv)
{
    Command cmd = parse_words(argc - 1, argv + 1, argv[0]);
    Config *c;
    if (!cmd.base)
        err((Loc){0},
            "diff: --allow %s: limits the growth over --base FILE, which is missing",
            cmd.allow);
    const Graph *g = run_rooms(&cmd, &c);
    return cost_run(g, c, cmd.base, cmd.allow, stdout);
}

/* RECIPE [FIELD=VALUE ...] [RECIPE [FIELD=VALUE ...]]; without a second recipe, compares the first
 * with and without its FIELD=VALUE words. */
static int run_diff(int argc, char **argv)
{
    int second = 0, recipes = 0;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--base") || !strcmp(argv[i], "--allow"))
            return run_cost(argc, argv);
    for (int i = 1; i < argc; i++)
        if (*argv[i] != '-' && (!strchr(argv[i], '=') || strchr(argv[i], '/'))) {
            second = ++recipes == 2 ? i : second;
            if (recipes == 3)
                err((Loc){0},
                    "diff: %s: takes at most two recipes, each followed by FIELD=VALUE words",
                    argv[i]);
        }
    if (recipes && argc == 2)
        err((Loc){0},
            "diff: add a second recipe, or FIELD=VALUE words to compare the first with");
    Command a = parse_words(second ? second - 1 : argc - 1, argv + 1, argv[0]), b = a;
    if (second)
        b = parse_words(argc - second, argv + second, argv[0]);
    else
        a.noverrides = 0;
    Config *ca, *cb;
    Graph *ga = run_rooms(&a, &ca), *gb = run_rooms(&b, &cb);
    return diff_run(ga, ca, gb, cb, stdout);
}

static int run_list(int argc, char **argv)
{
    report_list(argc - 1, argv + 1, stdout);
    return 0;
}

static int run_fields(int argc, char **argv)
{
    if (argc > 1)
        err((Loc){0}, "fields: takes no words, got %s; one field: gen explain %s", argv[1],
            argv[1]);
    report_fields(NULL, stdout);
    return 0;
}

static int run_explain(int argc, char **argv)
{
    if (argc != 2)
        err((Loc){0}, "explain: takes one field, for example: gen explain lora.rank");
    report_fields(argv[1], stdout);
    return 0;
}

/* argv[0] is the recipe or an option. */
static int run_recipe(int argc, char **argv)
{
    Command cmd = parse_words(argc, argv, "");
    generate(&cmd);
    return 0;
}

static int run_help(int argc, char **argv)
{
    (void)argc, (void)argv;
    commands_help(stdout);
    return 0;
}

static int run_version(int argc, char **argv)
{
    (void)argc, (void)argv;
    if (answer_wanted()) {
        cJSON *o = answer_new();
        answer_text(o, "version", version);
        answer_print(o);
    } else
        puts(version);
    return 0;
}

static int (*const command_run[])(int argc, char **argv) = {
#define COMMAND(word, function, words, takes, about) function,
#include "gen/commands.def"
};

/* Ends the program for a word that is neither a command nor a recipe. */
static void unknown_command(const char *word)
{
    const char *name[sizeof command_run / sizeof *command_run + MAX_RECIPES];
    for (int i = 0; i < ncommands; i++)
        name[i] = command_row[i].word;
    const char *near =
        text_nearest(word, name, ncommands + recipe_names(name + ncommands, MAX_RECIPES));
    err((Loc){0}, "%s: neither a command nor a recipe (NAME.lua)%s", word,
        near ? text_print("; did you mean %s?", near) : "; `gen --help` lists the commands");
}

/* Replaces --card NAME by the word card=NAME. Returns the new argc. */
static int take_cards(int argc, char **argv, const char *command)
{
    for (int i = 1; i < argc && command_option(command, "--card"); i++) {
        if (strcmp(argv[i], "--card"))
            continue;
        if (i + 1 == argc || *argv[i + 1] == '-')
            err((Loc){0}, "--card: needs a card after it; gen list cards prints them");
        argv[i] = text_print("card=%s", argv[i + 1]);
        memmove(argv + i + 1, argv + i + 2, sizeof *argv * (size_t)(argc-- - i - 2));
    }
    return argc;
}

/* Splits --option=VALUE into two words if the command has this option with a value. */
static void split_options(const char *command, int *argc, char ***argv)
{
    char **words = arena_new((2 * (size_t)*argc + 1) * sizeof *words);
    int n = 0;
    for (int i = 0; i < *argc; i++) {
        char *word = (*argv)[i], *equal = strchr(word, '=');
        const OptionRow *o = NULL;
        if (i > 0 && equal && !strncmp(word, "--", 2))
            o = command_option(command, text_print("%.*s", (int)(equal - word), word));
        if (o && *o->value) {
            words[n++] = text_print("%.*s", (int)(equal - word), word);
            words[n++] = equal + 1;
        } else
            words[n++] = word;
    }
    *argc = n;
    *argv = words;
}

/* Ends the program if an option with a value is given twice, except --card, which is a field, and
 * NAME=VALUE. */
static void refuse_repeats(const char *command, int argc, char **argv)
{
    const char **value = arena_new((size_t)noptions * sizeof *value);
    for (int i = 1; i + 1 < argc; i++) {
        const OptionRow *o = command_option(command, argv[i]);
        if (!o || !*o->value || !strcmp(o->word, "--card") || strchr(o->value, '='))
            continue;
        const char **before = &value[o - option_row];
        if (*before)
            err((Loc){0}, "%s %s and %s %s: give %s once%s", o->word, text_shell(*before), o->word,
                text_shell(argv[i + 1]), o->word, strchr(o->value, ',') ? ", as a list A,B" : "");
        *before = argv[++i];
    }
}

/* At exit: a command whose output could not be written has failed. */
static void check_stdout(void)
{
    const bool failed = ferror(stdout), wrote = __fpending(stdout) > 0;
    errno = 0;
    if (!fclose(stdout) && !failed)
        return;
    if (!failed && !wrote && errno == EBADF)     /* it was closed before, and nothing is lost */
        return;
    fprintf(stderr, "gen: standard output: %s\n", errno ? strerror(errno) : "cannot be written");
    _exit(1);
}

int main(int argc, char **argv)
{
    atexit(check_stdout);
    objectives_install();
    if (argc > 1) {
        const char *command = *argv[1] && command_find(argv[1]) >= 0 ? argv[1] : "";
        split_options(command, &argc, &argv);
        refuse_repeats(command, argc, argv);
    }
    if (argc < 2) {
        commands_help(stderr);
        return 1;
    }
    bool help = false;
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
        help = help || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
    int k = *argv[1] ? command_find(strcmp(argv[1], "-h") ? argv[1] : "--help") : -1;
    if (k < 0) {
        if (!strpbrk(argv[1], "-./=") && !recipe_known(argv[1]))
            unknown_command(argv[1]);
        if (help) {
            commands_help(stdout);
            return 0;
        }
        return run_recipe(take_cards(argc, argv, "") - 1, argv + 1);
    }
    argc = take_cards(argc, argv, argv[1]);
    for (int i = 2; i < argc && command_option(argv[1], "--json"); i++)
        if (!strcmp(argv[i], "--json")) {
            answer_begin(command_row[k].word);
            memmove(argv + i, argv + i + 1, sizeof *argv * (size_t)(argc-- - i));
            i--;
        }
    if (help && command_run[k] != pack_main) {           /* whose own help has more */
        command_help(k, stdout);
        return 0;
    }
    return command_run[k](argc - 1, argv + 1);
}
