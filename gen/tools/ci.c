/* ci.c -- `gen ci`: a continuous-integration workflow with one job per recipe.
 *
 * In:    recipes of this repository, templates/ci.
 * Out:   YAML on stdout, reproducible.
 * Keeps: user text is a quoted scalar; commands receive it as variables, never as their own
 *        text. */
#define _GNU_SOURCE
#include "gen/commands.h"
#include "gen/emit/emit.h"
#include "gen/tools/tools.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *option, *template;
    const char *image;               /* key of a job's container */
    int most;                        /* maximum number of jobs in a matrix */
} Host;
static const Host host_row[] = {{"--github", "templates/ci/github.yml", "container", 256},
                                {"--gitlab", "templates/ci/gitlab.yml", "IMAGE", 200}};
enum { HOSTS = sizeof host_row / sizeof *host_row };

/* Images of jobs: Debian as in gen/deps.sh; for CUDA programs one with nvcc, NVRTC, cuBLASLt and
 * NCCL. */
static const char image_cpu[] = "debian:12", image_cuda[] = "nvidia/cuda:13.0.1-devel-ubuntu24.04";

typedef struct {
    const Host *host;
    const char *allow, *diecast;     /* NULL: not given */
    const char *path[MAX_RECIPES];
    char *filter[MAX_RECIPES];
    int npaths, nfilters;
} Words;

static const char *option_value(int argc, char **argv, int *i, const char *wants)
{
    if (*i + 1 == argc)
        err((Loc){0}, "ci: %s: needs %s after it", argv[*i], wants);
    return argv[++*i];
}

static Words words_of(int argc, char **argv)
{
    Words w = {0};
    for (int i = 1; i < argc; i++) {
        const Host *host = NULL;
        for (int k = 0; k < HOSTS; k++)
            if (!strcmp(argv[i], host_row[k].option))
                host = &host_row[k];
        if (host && w.host)
            err((Loc){0}, "ci: %s: give only one of --github and --gitlab", argv[i]);
        else if (host)
            w.host = host;
        else if (!strcmp(argv[i], "--allow"))
            w.allow = option_value(argc, argv, &i, "a size, such as 2GiB, or any,");
        else if (!strcmp(argv[i], "--diecast"))
            w.diecast = option_value(argc, argv, &i, "a URL, perhaps with #REF,");
        else if (*argv[i] == '-')
            command_unknown_option("ci", argv[i]);
        else if (w.npaths == MAX_RECIPES || w.nfilters == MAX_RECIPES)
            err((Loc){0}, "ci: more than %d words", MAX_RECIPES);
        else if (strchr(argv[i], '=') && !strchr(argv[i], '/'))
            w.filter[w.nfilters++] = argv[i];
        else {
            path_check("recipe", argv[i]);
            w.path[w.npaths++] = recipe_find(argv[i]);
        }
    }
    if (!w.host)
        err((Loc){0}, "ci: needs --github or --gitlab, the service that runs the workflow");
    if (w.allow && strcmp(w.allow, "any") && strcmp(w.allow, "0"))
        bytes_of("ci: --allow", w.allow);
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "-_.:/@~+#";
    if (w.diecast &&
        (!*w.diecast || strchr("-#", *w.diecast) || w.diecast[strspn(w.diecast, set)] ||
         strstr(w.diecast, "#-") || (strchr(w.diecast, '#') && !strchr(w.diecast, '#')[1])))
        err((Loc){0},
            "ci: --diecast %s: must be an address for git clone, of letters, digits and _ . : / @ "
            "~ + -, with an optional #REF after it",
            text_shown(w.diecast));
    return w;
}

/* ---- the repository -------------------------------------------------------------------------- */

/* Root of the git repository of this folder. */
static const char *repository(void)
{
    char *here = getcwd(NULL, 0);
    for (char *end = here; here && *here; *end = 0) {
        if (!access(text_print("%s/.git", here), F_OK))
            return here;
        end = strrchr(here, '/');
    }
    err((Loc){0},
        "ci: this folder is in no git repository, which a workflow needs: git init");
}

/* Path relative to root; NULL: not below it. */
static const char *below(const char *root, const char *path)
{
    char *real = realpath(path, NULL);
    size_t n = strlen(root);
    if (!real || strncmp(real, root, n))
        return NULL;
    return !real[n] ? "." : real[n] == '/' ? real + n + 1 : NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef struct { const char *path, *name; bool cuda; } Job;

/* Stores a job per recipe; ends the program if a recipe cannot be a job. */
static int jobs_of(Words *w, const char *root, Job *job)
{
    static Config *c[MAX_RECIPES];
    const bool named = w->npaths;
    if (!named)
        w->npaths = list_paths(w->path, MAX_RECIPES);
    const int all = w->npaths, n = list_passing(w->nfilters, w->filter, w->path, c, all);
    if (!n)
        err((Loc){0}, "ci: none of the %d recipes has these values", all);
    if (n > w->host->most)
        err((Loc){0},
            "ci: %d recipes; a matrix has at most %d jobs there: choose some by FIELD=VALUE words",
            n, w->host->most);
    for (int i = 0; i < n; i++) {
        job[i] = (Job){below(root, w->path[i]), c[i]->name,
                       strcmp(target_find(c[i]->v[F_target].s)->backend, "cpu")};
        if (!job[i].path)
            err((Loc){0}, "ci: %s: not in the repository %s, so jobs cannot find it%s",
                w->path[i], root, named ? "" : "; name recipes of yours");
        path_check("recipe", job[i].path);
        path_check("name", job[i].name);
        for (int k = 0; k < i; k++)
            if (!strcmp(job[i].path, job[k].path))
                err((Loc){0}, "ci: %s: named twice", job[i].path);
            else if (!strcmp(job[i].name, job[k].name))
                err((Loc){0},
                    "ci: %s and %s: both have the name %s, so their files would collide: set name "
                    "in one of them",
                    job[k].path, job[i].path, job[i].name);
    }
    return n;
}

/* One-line YAML scalar; path_check() has excluded quotes. */
static const char *scalar(const char *text)
{
    if (strpbrk(text, "'\n"))
        bug("%s: no text for one line of YAML", text);
    return text_print("'%s'", text);
}

static const char *matrix_of(const Words *w, const Job *job, int n)
{
    const bool upper = !strcmp(w->host->option, "--gitlab");
    Str s = {0};
    for (int i = 0; i < n; i++) {
        const char *image = scalar(job[i].cuda ? image_cuda : image_cpu);
        if (upper)
            str_print(&s, "      - RECIPE: %s\n        NAME: %s\n        IMAGE: %s\n",
                      scalar(job[i].path), scalar(job[i].name), image);
        else
            str_print(&s,
                      "          - recipe: %s\n            name: %s\n            container: %s\n",
                      scalar(job[i].path), scalar(job[i].name), image);
    }
    return s.text;
}

int ci_main(int argc, char **argv)
{
    static Job job[MAX_RECIPES];
    Words w = words_of(argc, argv);
    const char *root = repository(), *folder = below(root, gen_root());
    const int n = jobs_of(&w, root, job);
    if (!folder && !w.diecast)
        err((Loc){0},
            "ci: the repository %s does not contain Diecast; tell jobs where to clone it: "
            "--diecast URL#REF",
            root);
    if (!w.diecast)
        path_check("the folder of Diecast", folder);
    char *mark = w.diecast ? strchr(w.diecast, '#') : NULL;
    bool cuda = false;
    for (int i = 0; i < n; i++)
        cuda = cuda || job[i].cuda;
    Hole hole[] = {
        {"jobs", matrix_of(&w, job, n), false},
        {"CUDA", cuda ? "1" : "", false},
        {"CLONE",
         w.diecast ? scalar(text_print("%.*s", (int)strcspn(w.diecast, "#"), w.diecast)) : "",
         false},
        {"REF", mark ? scalar(mark + 1) : "", false},
        {"FOLDER", scalar(w.diecast ? "out/diecast" : folder), false},
        {"ALLOW", scalar(w.allow ? w.allow : "any"), false},
    };
    fputs(template_fill(w.host->template, hole, sizeof hole / sizeof *hole), stdout);
    return 0;
}
