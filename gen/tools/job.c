/* job.c -- `gen launch`: a TrainJob for Kubernetes, a task for SkyPilot.
 *
 * In:    the recipe's ranks, target, card and cluster; words of job.def; the program's arguments.
 * Out:   YAML on stdout.
 * Keeps: user text is a quoted scalar without control characters; in it no $ has a meaning for
 *        Kubernetes; in the command of SkyPilot it is a quoted word of a shell. */
#define _GNU_SOURCE
#include "gen/tools/job.h"
#include "gen/emit/emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static const struct {
    const char *word, *engines, *placeholder, *of, *part, *want;
} word_row[] = {
#define JOB_WORD(word, engines, placeholder, of, part, want) \
    {#word, engines, placeholder, LETTERS of, part, want},
#include "gen/tools/job.def"
};
static const struct {
    const char *card, *name;
} accelerator_row[] = {
#define ACCELERATOR(card, name) {card, name},
#include "gen/tools/job.def"
};
static const struct {
    const char *restart;
    int code;
} exit_row[] = {
#define EXIT_CODE(name, code, restart, meaning) {restart, code},
#include "runtime/exit_codes.def"
#undef EXIT_CODE
};
enum { EXITS = sizeof exit_row / sizeof *exit_row, NAME_MOST = 40, REQUIRED_MOST = 4 };
/* GiB of host memory that a rank needs besides its buffers: program, libraries, driver, data. */
enum { PROCESS_GIB = 4 };

static bool uses(const JobWords *w, int word)
{
    return strstr(word_row[word].engines, text_print("|%s|", w->engine));
}

/* Stores a word of job.def; false: it is none. */
static bool take_word(JobWords *w, const char *text)
{
    const size_t n = strcspn(text, "=");
    for (int i = 0; i < JOB_WORDS; i++) {
        const char *value = text + n + 1;
        if (!text[n] || strlen(word_row[i].word) != n || strncmp(word_row[i].word, text, n))
            continue;
        if (!uses(w, i))
            err((Loc){0}, "launch: %s: %s has no such word; gen launch --help", text_shown(text),
                w->engine);
        if (w->word[i])
            err((Loc){0}, "launch: %s: given twice", word_row[i].word);
        if (!*value || value[strspn(value, word_row[i].of)] || !isalnum((unsigned char)*value) ||
            !strstr(value, word_row[i].part))
            err((Loc){0}, "launch: %s: must be %s, got %s", word_row[i].word, word_row[i].want,
                text_shown(value));
        w->word[i] = value;
        return true;
    }
    return false;
}

/* Ends gen if a word is neither of job.def nor a field, and a word of job.def is its nearest. */
static void check_word(const JobWords *w, const char *text)
{
    const char *word = text_print("%.*s", (int)strcspn(text, "="), text);
    const char *near[JOB_WORDS + NFIELDS];
    int n = 0;
    for (int i = 0; i < NFIELDS; i++)
        if (!strchr(field_row[i].path, '.'))
            near[n++] = field_row[i].path;
    const int fields = n;
    for (int i = 0; i < JOB_WORDS; i++)
        if (uses(w, i))
            near[n++] = word_row[i].word;
    const char *nearest = strchr(word, '.') ? NULL : text_nearest(word, near, n);
    for (int i = fields; i < n; i++)
        if (text[strlen(word)] && field_find(word) < 0 && nearest == near[i])
            err((Loc){0}, "launch: %s: unknown word; did you mean \"%s\"?", text_shown(word),
                nearest);
}

JobWords job_words(int *argc, char **argv)
{
    JobWords w = {0};
    int kept = 1, i = 1;
    if (*argc < 2 || (strcmp(argv[1], "kubernetes") && strcmp(argv[1], "skypilot")))
        err((Loc){0}, "launch: must be followed by kubernetes or skypilot, then a recipe%s%s",
            *argc < 2 ? "" : ", got ", *argc < 2 ? "" : text_shown(argv[1]));
    w.engine = argv[1];
    for (i = 2; i < *argc && strcmp(argv[i], "--"); i++)
        if (!take_word(&w, argv[i])) {
            check_word(&w, argv[i]);
            argv[kept++] = argv[i];
        }
    if (i + 1 < *argc) {
        w.argument = argv + i + 1;
        w.narguments = *argc - i - 1;
    }
    for (int k = 0; k < w.narguments; k++)
        for (const char *p = w.argument[k]; *p; p++)
            if (iscntrl((unsigned char)*p))
                err((Loc){0}, "launch: argument %s: has a control character",
                    text_shown(w.argument[k]));
    *argc = kept;
    return w;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A YAML scalar of one line. */
static const char *scalar(const char *text)
{
    Str s = {0};
    str_print(&s, "'");
    for (; *text; text++)
        str_print(&s, *text == '\'' ? "''" : "%c", *text);
    str_print(&s, "'");
    return s.text;
}

/* The same where Kubernetes replaces $(NAME). */
static const char *container_scalar(const char *text)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (; *text; text++)
        str_print(&s, *text == '$' ? "$$" : "%c", *text);
    return scalar(s.text);
}

/* A name that objects of Kubernetes and clusters of SkyPilot may have: small letters, digits and
 * single -, from a letter on. */
static const char *engine_name(const char *name)
{
    Str s = {0};
    str_print(&s, "%s", isalpha((unsigned char)*name) && (unsigned char)*name < 128 ? "" : "run-");
    for (; *name && s.n < NAME_MOST; name++) {
        const unsigned char letter = (unsigned char)*name;
        if (letter < 128 && isalnum(letter))
            str_print(&s, "%c", tolower(letter));
        else if (s.n && s.text[s.n - 1] != '-')
            str_print(&s, "-");
    }
    while (s.text[s.n - 1] == '-')
        s.text[--s.n] = 0;
    return s.text;
}

/* "81, 82": the codes after which a restart may help at once, or those that it does not change. */
static char *codes(bool restart)
{
    Str s = {0};
    for (int i = 0; i < EXITS; i++) {
        const bool again = !strncmp(exit_row[i].restart, "yes", 3);
        if (exit_row[i].code && (restart ? again : !strcmp(exit_row[i].restart, "no")))
            str_print(&s, "%s%d", s.n ? ", " : "", exit_row[i].code);
    }
    return s.text;
}

/* True if one of the program's arguments is the flag. */
static bool has_argument(const JobWords *w, int flag)
{
    for (int i = 0; i < w->narguments; i++)
        if (run_flag_typed(w->argument[i]) == flag)
            return true;
    return false;
}

/* True if the recipe sets the flag in run = {...}. */
static bool recipe_sets(const Config *c, int flag)
{
    for (int i = 0; i < c->nrun; i++)
        if (run_flag_find(c->run_name[i]) == flag)
            return true;
    return false;
}

/* Sets the flags with values that a training program needs and the recipe does not set: "--data",
 * "/data/FILE", ... Returns their number. */
static int required(const Config *c, const Graph *g, char *flag[], int most)
{
    int n = 0;
    char *words = text_copy(emit_required_flags(g, NULL, "FILE")), *at = NULL;
    for (char *w = strtok_r(words, " ", &at); w && n + 2 <= most; w = strtok_r(NULL, " ", &at)) {
        const char *value = strtok_r(NULL, " ", &at);
        if (recipe_sets(c, run_flag_typed(w)))
            continue;
        flag[n++] = w;
        flag[n++] = text_print("/data/%s", value);
    }
    return n;
}

/* Ends the program if the arguments are for training and lack a flag that it needs. A resumed run
 * reads the base from its checkpoint. */
static void check_required(const JobWords *w, const Config *c, const Graph *g)
{
    char *flag[2 * REQUIRED_MOST];
    const int n = required(c, g, flag, 2 * REQUIRED_MOST);
    for (int i = 0; i < nrun_flags; i++)
        if ((run_flag_command(i) || i == run_flag_find("resume")) && has_argument(w, i))
            return;
    for (int i = 0; w->argument && i < n; i += 2)
        if (!has_argument(w, run_flag_typed(flag[i])))
            err((Loc){0}, "launch: the program needs %s, which is missing: add %s %s after --",
                flag[i], flag[i], flag[i + 1]);
}

/* The program's arguments, a line each; --out is added if it is missing. */
static char *arguments(const JobWords *w, const Config *c, const Graph *g)
{
    char *placeholder[2 * REQUIRED_MOST];
    const bool shell = !strcmp(w->engine, "skypilot");
    char **argument = w->argument ? w->argument : placeholder;
    const int n = w->argument ? w->narguments : required(c, g, placeholder, 2 * REQUIRED_MOST);
    const char **all = arena_new((size_t)(n + 2) * sizeof *all);
    int many = 0;
    for (int i = 0; i < n; i++)
        all[many++] = argument[i];
    if (!has_argument(w, run_flag_find("out"))) {
        all[many++] = "--out";
        all[many++] = text_print("/data/runs/%s", c->name);
    }
    Str s = {0};
    for (int i = 0; i < many; i++)
        if (shell)
            str_print(&s, "    %s%s\n", text_shell(all[i]), i + 1 < many ? " \\" : "");
        else
            str_print(&s, "      - %s\n", container_scalar(all[i]));
    return s.text;
}

/* ---- the machines ---------------------------------------------------------------------------- */

typedef struct {
    bool cuda;
    int64_t nodes, local;            /* machines, ranks on each */
    const Target *target;
    const Card *card;                /* NULL: not named */
    const char *interface;           /* of the cluster; "": not named */
    int64_t cpus, memory_gib;        /* of a machine; cpus 0: not known */
} Machines;

static const char *cluster_text(const char *lines, const char *name)
{
    const char *text = lines ? cluster_value(lines, name, 0) : NULL;
    return text ? text : "";
}

static Machines machines_of(Config *c, const Graph *g)
{
    const char *lines = cluster_lines(c);
    const FieldValue *card = &c->v[F_cluster_card];
    Machines m = {.target = target_find(config_text(c, F_target)), .nodes = 1};
    m.cuda = strcmp(m.target->backend, "cpu") != 0;
    m.card = c->cluster && card->set && card->s ? card_find(card->s) : config_card(c);
    m.interface = cluster_text(lines, "interface");
    m.nodes = lines ? atoll(cluster_text(lines, "nodes")) : 1;
    m.local = c->v[F_gpus].i / m.nodes;
    m.cpus = m.local * atoll(cluster_text(lines, "cpus_per_task"));
    const int64_t arena = m.cuda ? 0 : g->arena_bytes + g->persistent_bytes;
    m.memory_gib = m.local * (((graph_pinned_bytes(g) + arena) >> 30) + 1 + PROCESS_GIB);
    return m;
}

/* Ends the program if the engine cannot start such ranks. */
static void check_machines(const JobWords *w, const Machines *m, Config *c)
{
    if (m->cuda || m->nodes == 1)
        return;
    if (strcmp(w->engine, "kubernetes"))
        err((Loc){0},
            "launch: skypilot: CPU programs of several machines are started by MPI over ssh, which "
            "needs names that SkyPilot does not give; cluster.nodes=1, or gen launch kubernetes");
    if (*m->interface)
        err(config_loc(c, F_cluster_interface),
            "launch: cluster.interface: run.sh gives %s to MPI, but pods have eth0; leave it out "
            "(cluster.interface=)",
            m->interface);
}

/* SkyPilot's name of the GPU; "GPU": unknown. */
static const char *accelerator(const JobWords *w, const Card *card)
{
    if (w->word[JOB_gpu])
        return w->word[JOB_gpu];
    for (size_t i = 0; card && i < sizeof accelerator_row / sizeof *accelerator_row; i++)
        if (!strcmp(accelerator_row[i].card, card->name))
            return accelerator_row[i].name;
    return "GPU";
}

/* Names the placeholders of the file on stderr. */
static void tell_left(const JobWords *w, const Config *c, const Graph *g, const char *gpu)
{
    char *flag[2 * REQUIRED_MOST];
    const int n = w->argument ? 0 : required(c, g, flag, 2 * REQUIRED_MOST);
    Str s = {0};
    for (int i = 0; i < JOB_WORDS; i++)
        if (uses(w, i) && !w->word[i] && *word_row[i].placeholder)
            str_print(&s, "%s%s (%s=: %s)", s.n ? ", " : "", word_row[i].placeholder,
                      word_row[i].word, word_row[i].want);
    if (!strcmp(gpu, "GPU"))
        str_print(&s, "%sGPU (gpu=: as `sky show-gpus` calls it)", s.n ? ", " : "");
    for (int i = 0; i < n; i += 2)
        str_print(&s, "%s%s (-- %s /data/...: the program's arguments)", s.n ? ", " : "",
                  strrchr(flag[i + 1], '/') + 1, flag[i]);
    if (s.n)
        fprintf(stderr, "gen: launch: replace these placeholders, or give the words: %s\n", s.text);
}

static const char *number(int64_t n)
{
    return text_print("%lld", (long long)n);
}

/* The value of a word, or its placeholder. */
static const char *word_of(const JobWords *w, int word)
{
    return w->word[word] ? w->word[word] : word_row[word].placeholder;
}

void job_print(const JobWords *w, const char *command, const char *words, Config *c, const Graph *g,
               FILE *to)
{
    if (!g)
        err((Loc){0},
            "launch: programs of the objective %s run as one process; `gen container` puts it into "
            "an image",
            config_text(c, F_objective));
    const Machines m = machines_of(c, g);
    check_machines(w, &m, c);
    check_required(w, c, g);
    const bool kubernetes = !strcmp(w->engine, "kubernetes"), many = m.nodes > 1;
    const char *gpu = m.cuda && !kubernetes ? accelerator(w, m.card) : "";
    const char *image = word_of(w, JOB_image), *product = w->word[JOB_gpu];
    const char *run_sh = text_print("/diecast/%s/run.sh", c->name);
    Hole hole[] = {
        {"FILE", text_comment(c->name), true},
        {"COMMAND", text_comment(command), true},
        {"WORDS", text_comment(words), true},
        {"FOLDER", text_comment(text_print("/diecast/%s", c->name)), true},
        {"NAME", engine_name(c->name), true},
        {"NODES", number(m.nodes), true},
        {"LOCAL", number(m.local), true},
        {"IMAGE", scalar(kubernetes ? image : text_print("docker:%s", image)), true},
        {"VOLUME", scalar(word_of(w, JOB_volume)), true},
        {"BUCKET", scalar(word_of(w, JOB_bucket)), true},
        {"NAMESPACE", w->word[JOB_namespace] ? scalar(w->word[JOB_namespace]) : "", true},
        {"PRODUCT", product ? scalar(product) : "", true},
        {"GPU", gpu, true},
        {"GPU_ABOUT",
         m.card ? m.card->about : text_print("GPUs of the target %s", m.target->name), true},
        {"CAPABILITY", m.cuda ? "yes" : "", true},
        {"MAJOR", number(m.target->capability / 10), true},
        {"MINOR", number(m.target->capability % 10), true},
        {"CPUS", m.cpus ? number(m.cpus) : "", true},
        {"MEMORY", number(m.memory_gib), true},
        {"FINAL_CODES", codes(false), true},
        {"RESTART_CODES", codes(true), true},
        {"RUN_SH", kubernetes ? container_scalar(run_sh) : text_shell(run_sh), true},
        {"INTERFACE", m.interface, true},
        {"interface", m.cuda && many ? m.interface : "", true},
        {"mpi", !m.cuda && many ? "yes" : "", true},
        {"secret", m.cuda && many ? "yes" : "", true},
        {"args", arguments(w, c, g), false}};
    fputs(template_fill_some(text_print("templates/launch/%s.yaml", w->engine), hole,
                             sizeof hole / sizeof *hole),
          to);
    tell_left(w, c, g, gpu);
}
