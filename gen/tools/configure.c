/* configure.c -- `gen config`: the machine file for run.sh, and cluster files.
 *
 * In:    flags, or answers on a terminal.
 * Out:   KEY=VALUE lines of the machine file; recipes/clusters/NAME.lua.
 * Keeps: without a terminal it asks nothing and names what is missing. Precision is a recipe field
 *        and is in neither file. */
#define _GNU_SOURCE
#include "gen/commands.h"
#include "gen/tools/process.h"
#include "gen/tools/tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one value ------------------------------------------------------------------------------- */

static bool is_number(const char *s, long lo, long hi)
{
    char *end;
    errno = 0;
    const long n = strtol(s, &end, 10);
    return *s && strspn(s, "0123456789") == strlen(s) && (*s != '0' || !s[1]) && !errno &&
           n >= lo && n <= hi;
}

static bool is_nodes(const char *s) { return is_number(s, 1, 65536); }
static bool is_rank(const char *s) { return is_number(s, 0, 65535); }
static bool is_port(const char *s) { return is_number(s, 1, 65535); }

static bool is_host(const char *s)
{
    static const char begins[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return *s && strlen(s) < 254 && strchr(begins, *s) && strspn(s + 1, begins) + 1 <= strlen(s) &&
           !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")];
}

/* True for numbers such as 0,1,2, each once, or all. */
static bool is_gpus(const char *s)
{
    bool seen[10000] = {false};
    if (!strcmp(s, "all"))
        return true;
    for (const char *p = s;; p++) {
        const size_t n = strcspn(p, ",");
        const char *word = text_print("%.*s", (int)n, p);
        if (!is_number(word, 0, 9999) || seen[atoi(word)])
            return false;
        seen[atoi(word)] = true;
        p += n;
        if (!*p)
            return true;
    }
}

enum { NODES, RANK, ADDRESS, PORT, GPUS, KEYS };
static const struct {
    const char *key, *flag, *question, *usual, *want;
    bool (*good)(const char *s);
} row[KEYS] = {
    [NODES] = {"NNODES", "--nodes", "how many machines take part in a run", "1",
               "a number of machines", is_nodes},
    [RANK] = {"NODE_RANK", "--node-rank", "which of them is this, from 0", "", "a number from 0",
              is_rank},
    [ADDRESS] = {"MASTER_ADDR", "--master-addr", "name or address of machine 0", "",
                 "a host name or address", is_host},
    [PORT] = {"MASTER_PORT", "--master-port", "a free port on machine 0", "29500",
              "a port, 1 to 65535", is_port},
    [GPUS] = {"GPU_IDS", "--gpu-ids", "which of its GPUs, such as 0,1 (nothing: all)", "",
              "numbers of GPUs such as 0,1, each once, or all", is_gpus},
};

/* ---- the machine's file ---------------------------------------------------------------------- */

static const char *machine_path(void)
{
    const char *named = getenv("DIECAST_CONFIG"), *base = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");
    if (named && *named)
        return named;
    if (base && *base)
        return text_print("%s/diecast/machine", base);
    if (!home || !*home)
        err((Loc){0},
            "config: HOME is not set; set DIECAST_CONFIG=FILE to the path of the machine file");
    return text_print("%s/.config/diecast/machine", home);
}

static int show(void)
{
    const char *path = machine_path(), *given[KEYS] = {NULL};
    size_t n;
    Loc at = {path, 0};
    char *text = file_text(path, 1 << 16, &n);
    if (!text)
        err((Loc){0}, "config: %s: %s; gen config writes it", path, strerror(errno));
    for (char *p = text, *line; *p;) {
        at.line++;
        line = p;
        p += strcspn(p, "\n");
        if (*p)
            *p++ = 0;
        if (!*line || *line == '#')
            continue;
        int k = 0;
        const char *equal = strchr(line, '=');
        while (k < KEYS && (!equal || strlen(row[k].key) != (size_t)(equal - line) ||
                            strncmp(row[k].key, line, (size_t)(equal - line))))
            k++;
        if (k == KEYS)
            err(at, "must be NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT or GPU_IDS=VALUE, got %s",
                text_shown(line));
        if (given[k])
            err(at, "%s is set twice", row[k].key);
        if (!row[k].good(equal + 1))
            err(at, "%s: must be %s, got %s", row[k].key, row[k].want, text_shown(equal + 1));
        given[k] = equal + 1;
    }
    printf("# %s\n", path);
    for (int k = 0; k < KEYS; k++)
        if (given[k])
            printf("%s=%s\n", row[k].key, given[k]);
    return 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

static bool on_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* Reads an answer; empty: usual. */
static const char *ask(const char *question, const char *usual)
{
    char *line = NULL;
    size_t room = 0;
    fprintf(stderr, "%s%s%s%s? ", question, *usual ? " [" : "", usual, *usual ? "]" : "");
    if (getline(&line, &room, stdin) < 0)
        err((Loc){0}, "config: no answer; nothing is written");
    line[strcspn(line, "\n")] = 0;
    const char *answer = *line ? text_copy(line) : usual;
    free(line);
    return answer;
}

static const char *ask_machine(int k)
{
    for (;;) {
        const char *answer = ask(row[k].question, row[k].usual);
        if (row[k].good(answer) || (k == GPUS && !*answer))
            return answer;
        fprintf(stderr, "must be %s, got %s\n", row[k].want, text_shown(answer));
    }
}

static int configure_machine(const char **given)
{
    const bool asks = on_terminal();
    Str missing = {0}, s = {0};
    for (int k = 0; k < KEYS; k++) {
        const bool several = given[NODES] && strcmp(given[NODES], "1");
        const bool wanted = k == NODES || k == GPUS || several;
        if (given[k] && !row[k].good(given[k]))
            err((Loc){0}, "config: %s: must be %s, got %s", row[k].flag, row[k].want,
                text_shown(given[k]));
        if (given[k] && !wanted)
            err((Loc){0}, "config: %s: is for several machines; add --nodes N",
                row[k].flag);
        if (!given[k] && wanted && asks)
            given[k] = ask_machine(k);
        else if (!given[k] && wanted && k == PORT)
            given[k] = row[k].usual;
        else if (!given[k] && wanted && k != GPUS && !(k == NODES && given[GPUS]))
            str_print(&missing, "%s%s (%s)", missing.n ? ", " : "", row[k].flag, row[k].question);
    }
    if (missing.n)
        err((Loc){0}, "config: no terminal to ask on: give %s", missing.text);
    if (given[RANK] && atol(given[RANK]) >= atol(given[NODES]))
        err((Loc){0}, "config: --node-rank: %s of %s machines; must be from 0 to %ld", given[RANK],
            given[NODES], atol(given[NODES]) - 1);
    if (given[GPUS] && !strcmp(given[GPUS], "all"))
        given[GPUS] = "";                /* without GPU_IDS, run.sh uses all */
    str_print(&s, "# of gen config, for run.sh of programs on GPUs; flags and the environment go "
                  "before it\n");
    for (int k = 0; k < KEYS; k++)
        if (given[k] && *given[k])
            str_print(&s, "%s=%s\n", row[k].key, given[k]);
    const char *path = machine_path();
    file_save(path, s.text, s.n);
    printf("%s:\n%s", path, s.text);
    return 0;
}

/* ---- a cluster's file ------------------------------------------------------------------------ */

static const struct { const char *name, *question, *usual, *only; } cluster_row[] = {
    {"about", "what it is, in a line", "", ""},
    {"launcher", "what starts programs there: run.sh, slurm, mpirun, torchrun", "run.sh", ""},
    {"card", "the GPU of its nodes (gen list cards; nothing: CPUs)", "", ""},
    {"nodes", "how many machines", "1", ""},
    {"gpus_per_node", "GPUs of a machine, or ranks of one with CPUs", "1", ""},
    {"link", "what joins the GPUs of a machine: nvlink, pcie (nothing: pcie)", "", "card"},
    {"network", "what joins machines: infiniband, ethernet", "ethernet", ""},
    {"interface", "network interface (nothing: found by NCCL or MPI)", "", ""},
    {"hosts", "names of the machines, with commas", "", "run.sh"},
    {"partition", "Slurm's partition", "", "slurm"},
    {"account", "Slurm's account", "", "slurm"},
    {"time", "limit of a job", "24:00:00", "slurm"},
    {"modules", "modules to load, with commas", "", "slurm"},
    {"scratch", "folder for runs that all machines see", "", ""},
};

/* Asks for the FIELD=VALUE words of a cluster; returns their number. */
static int ask_cluster(char **word)
{
    const char *launcher = "run.sh";
    bool card = false;
    int n = 0;
    for (size_t i = 0; i < sizeof cluster_row / sizeof *cluster_row; i++) {
        const char *only = cluster_row[i].only, *name = cluster_row[i].name;
        if (*only && strcmp(only, launcher) && !(card && !strcmp(only, "card")))
            continue;
        const char *answer = ask(cluster_row[i].question, cluster_row[i].usual);
        launcher = !strcmp(name, "launcher") ? answer : launcher;
        card = card || (!strcmp(name, "card") && *answer);
        if (!strcmp(name, "card") && !*answer)
            word[n++] = text_copy("target=cpu");
        else if (*answer)
            word[n++] = text_print("%s=%s", name, answer);
    }
    return n;
}

/* A recipe that reads the cluster, so that types, ranges and rules are the same. */
static const char recipe[] =
    "return { seq = { max = 8 }, batch = { micro = 1 },\n"
    "    model = { family = \"gpt2\", layers = 1, hidden = 8, heads = 2, vocab = 9 } }\n";

/* Writes that recipe to a scratch folder, next to the text of a cluster; returns its path. */
static const char *small_recipe(const char *name, const char *text)
{
    const char *folder = scratch_folder(), *path = text_print("%s/recipe.lua", folder);
    file_write_if_changed(path, recipe, sizeof recipe - 1, false);
    file_write_if_changed(text_print("%s/clusters/%s.lua", folder, name), text, strlen(text),
                          false);
    return path;
}

Config *config_of_cluster(const char *path)
{
    size_t n;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path,
               *text = file_text(path, 1 << 20, &n);
    if (!text)
        err((Loc){path, 0}, "cannot be read: %s", strerror(errno));
    const char *name = text_print("%.*s", (int)(strlen(base) - 4), base);
    const char *small = small_recipe(name, text);
    char *word = text_print("cluster=%s", name);
    Config *c = config_fill(recipe_load(small, &word, 1), small);
    check_config(c);
    return c;
}

static Config *check_words(const char *name, char **word, int n)
{
    const char *path = small_recipe(name, "return {}\n");
    char **all = arena_new((size_t)(n + 1) * sizeof *all);
    all[0] = text_print("cluster=%s", name);
    for (int i = 0; i < n; i++)
        all[i + 1] = text_print("cluster.%s", word[i]);
    Config *c = config_fill(recipe_load(path, all, n + 1), path);
    check_config(c);
    return c;
}

static int configure_cluster(const char *name, const char *folder, char **word, int n, bool force)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (!*name || !strchr(letters, *name) || strlen(name) > 64 ||
        strspn(name, text_print("%s.-", letters)) != strlen(name) || strstr(name, ".."))
        err((Loc){0},
            "config: --cluster: must be a name of up to 64 letters, digits and _ . -, got %s",
            text_shown(name));
    const char *path = text_print("%s/%s.lua", folder, name);
    if (!access(path, F_OK) && !force)
        err((Loc){path, 0}, "exists; --force overwrites it");
    char *asked[sizeof cluster_row / sizeof *cluster_row];
    if (!n && on_terminal()) {
        word = asked;
        n = ask_cluster(asked);
    }
    if (!n)
        err((Loc){0},
            "config: no terminal to ask on: give words FIELD=VALUE: card=NAME or target=cpu, "
            "nodes=N, gpus_per_node=N, launcher=slurm ... (gen fields, cluster)");
    bool has_device = false;
    for (int i = 0; i < n; i++)
        has_device = has_device || !strncmp(word[i], "card=", 5) || !strncmp(word[i], "target=", 7);
    if (!has_device)
        err((Loc){0}, "config: --cluster %s: add card=NAME, the GPU of its nodes (gen list cards), "
            "or target=cpu", name);
    const Config *c = check_words(name, word, n);
    Str s = {0};
    str_print(&s, "-- of gen config --cluster %s\nreturn {\n", name);
    for (int i = 0; i < NFIELDS; i++)
        if (field_of_cluster(i) && c->v[i].set)
            str_print(&s, "    %s = %s,\n", field_row[i].path + sizeof "cluster." - 1,
                      value_print(field_row[i].type, &c->v[i]));
    str_print(&s, "}\n");
    file_save(path, s.text, s.n);
    printf("%s:\n%s", path, s.text);
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

int configure_main(int argc, char **argv)
{
    const char *given[KEYS] = {NULL}, *cluster = NULL, *folder = NULL;
    char **word = arena_new((size_t)argc * sizeof *word);
    bool shows = false, force = false, machine = false;
    int n = 0;
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i], *text = NULL;      /* --flag=value is two words by now */
        const OptionRow *o = *flag == '-' ? command_option("config", flag) : NULL;
        if (*flag != '-') {
            if (!strchr(flag, '='))
                err((Loc){0}, "config: %s: takes flags, or --cluster NAME and FIELD=VALUE words",
                    argv[i]);
            word[n++] = argv[i];
            continue;
        }
        if (strstr(flag, "precision"))
            err((Loc){0},
                "config: %s: precision is a recipe field: add precision=bf16 to gen RECIPE or gen "
                "new FILE.lua",
                flag);
        if (!o)
            command_unknown_option("config", flag);
        if (*o->value && i + 1 == argc)
            err((Loc){0}, "config: %s: needs %s after it", flag, o->value);
        if (*o->value)
            text = argv[++i];
        for (int k = 0; k < KEYS; k++)
            if (!strcmp(flag, row[k].flag)) {
                given[k] = text;
                machine = true;
            }
        cluster = !strcmp(flag, "--cluster") ? text : cluster;
        folder = !strcmp(flag, "-o") ? text : folder;
        shows = shows || !strcmp(flag, "--show");
        force = force || !strcmp(flag, "--force");
    }
    if (shows + machine + (cluster != NULL) > 1)
        err((Loc){0}, "config: give only one of --show, --cluster and a machine's flags");
    if (!cluster && (n || folder || force))
        err((Loc){0}, "config: %s: is for --cluster NAME", n ? word[0] : folder ? "-o" : "--force");
    if (shows)
        return show();
    if (!cluster)
        return configure_machine(given);
    if (folder)
        path_check("-o", folder);
    return configure_cluster(cluster, folder ? folder : "recipes/clusters", word, n, force);
}
