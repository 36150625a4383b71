/* find.c -- the recipe file for a word of the command line.
 *
 * In:    a path, the bare name of a recipe, or neither.
 * Out:   the path of a file.
 * Keeps: an existing path is used as it is; a word taken for a folder, or a path that does not
 *        exist, is reported on stderr. */
#define _GNU_SOURCE
#include "gen/config/settings.h"
#include "gen/tools/tools.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_SETTINGS = 1 << 24 };     /* maximum size of a settings file, bytes */

static bool is_kind(const char *path, unsigned kind)
{
    struct stat st;
    return !stat(path, &st) && (st.st_mode & S_IFMT) == kind;
}

static bool holds(const char *folder, const char *name)
{
    return !access(text_print("%s/%s", folder, name), F_OK);
}

/* File name without folders and .lua. */
static char *bare_name(const char *word)
{
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word;
    size_t n = strlen(base);
    return text_print("%.*s", (int)(n > 4 && !strcmp(base + n - 4, ".lua") ? n - 4 : n), base);
}

/* recipes/NAME.lua of this folder, else of the project; NULL: none. */
static const char *in_recipes(const char *name)
{
    const char *here = text_print("recipes/%s.lua", name);
    if (*name && is_kind(here, S_IFREG))
        return here;
    const char *ours = text_print("%s/%s", gen_root(), here);
    return *name && is_kind(ours, S_IFREG) ? ours : NULL;
}

int recipe_names(const char **name, int max)
{
    struct dirent **file;
    int n = 0, all = scandir(text_print("%s/recipes", gen_root()), &file, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        const char *dot = strrchr(file[i]->d_name, '.');
        const bool recipe = dot && dot != file[i]->d_name && !strcmp(dot, ".lua");
        if (recipe && n == max)
            err((Loc){0}, "%s/recipes: more than %d recipes; move some of them to another folder",
                gen_root(), MAX_RECIPES);
        if (recipe)
            name[n++] = bare_name(file[i]->d_name);
        free(file[i]);
    }
    if (all >= 0)
        free(file);
    return n;
}

/* Language by file extension, "YAML" ...; NULL: possibly a recipe. */
static const char *language(const char *path)
{
    static const char *const ends[][2] = {{".yaml", "YAML"},
                                          {".yml", "YAML"},
                                          {".json", "JSON"},
                                          {".toml", "TOML"},
                                          {".py", "Python"}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (!strcasecmp(dot, ends[i][0]))
            return ends[i][1];
    return NULL;
}

/* "Qwen/Qwen2.5-7B": owner/name, as models are called on the Hugging Face hub. */
static bool is_hub_name(const char *word)
{
    const char *slash = strchr(word, '/');
    static const char set[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    return slash && slash != word && slash[1] && !strchr(slash + 1, '/') && !word[strspn(word, set)]
        && *word != '.' && !strstr(word, ".lua") && strncmp(word, "recipe", 6)
        && !is_kind(text_print("%.*s", (int)(slash - word), word), S_IFDIR);
}

static void refuse_folder(const char *word)
{
    if (holds(word, "adapter_config.json"))
        err((Loc){0},
            "%s is an adapter's folder, not a recipe: gen new FILE.lua --from BASE writes one for "
            "the model below it; the program takes the adapter: --adapter %s",
            word, word);
    if (holds(word, "config.json") && !holds(word, "manifest.json"))
        err((Loc){0},
            "%s is a model's folder, not a recipe: gen new FILE.lua --from %s writes one, gen plan "
            "%s shows what fits",
            word, text_shell(word), text_shell(word));
    if (holds(word, "manifest.json"))
        err((Loc){0},
            "%s is a folder that gen wrote: the head of its train.c has the recipe and the words "
            "that made it",
            word);
}

const char *recipe_find(const char *word)
{
    if (is_kind(word, S_IFREG)) {
        const char *is = language(word);
        if (is) {
            size_t n;
            char *text = file_text(word, LONGEST_SETTINGS, &n);
            const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
            if (!text)
                err((Loc){0}, "cannot read %s: %s", word, strerror(errno));
            if (!strcmp(name, "config.json") && strstr(text, "\"model_type\""))
                err((Loc){0},
                    "%s: is a file of a model's folder, not a recipe: gen new FILE.lua --from %s "
                    "writes one",
                    word, slash ? text_shell(text_print("%.*s", (int)(slash - word), word)) : ".");
            settings_file(word, is, text, n);
        }
        return word;
    }
    bool folder = is_kind(word, S_IFDIR);
    const char *found = folder && strchr(word, '/') ? NULL : in_recipes(bare_name(word));
    if (found) {
        /* not a misspelt path */
        const bool name = !strchr(word, '/') && !strstr(word, ".lua");
        if (folder || !name)
            fprintf(stderr, "gen: %s: %s; using %s\n", word, folder ? "a folder" : "no such file",
                    found);
        return found;
    }
    if (folder) {
        refuse_folder(word);
        return word;                         /* reading it reports the error */
    }
    if (is_hub_name(word))
        err((Loc){0},
            "%s: no such file; if it is a model of the Hugging Face hub, download it (hf download "
            "%s --local-dir DIR); gen new FILE.lua --from DIR writes a recipe for it, gen plan DIR "
            "shows what fits",
            word, word);
    const char *name[MAX_RECIPES];
    const char *near = text_nearest(bare_name(word), name, recipe_names(name, MAX_RECIPES));
    err((Loc){0}, "%s: no such file%s; %s", word,
        language(word) ? "" : text_print(", and recipes/ has no %s.lua", bare_name(word)),
        near ? text_print("did you mean %s?", near) : "gen list prints all recipes");
}

bool recipe_known(const char *word)
{
    return is_kind(word, S_IFREG) || in_recipes(bare_name(word));
}
