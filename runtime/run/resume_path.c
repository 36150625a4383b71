/* resume_path.c -- the checkpoint folder that --resume PATH names. */
#define _GNU_SOURCE
#include "runtime/run/resume_path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"

/* Returns X for X.pt or another name of PyTorch files, malloc'ed; otherwise NULL. */
static char *without_pt(const char *path)
{
    static const char *const ends[] = {".pt", ".pth", ".ckpt", ".bin"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t k = strlen(ends[i]);
        if (n > k && !strcmp(path + n - k, ends[i]) && path[n - k - 1] != '/')
            return format("%.*s", (int)(n - k), path);
    }
    return NULL;
}

static void refuse_pt(const char *path, const char *folder)
{
    char *word = shell_word(path);
    die(EXIT_NO_CKPT,
        "--resume %s: PyTorch files are not supported, and there is no folder %s here or in "
        "--out; for its weights alone, without the optimiser: python3 -c \"import sys, torch, "
        "safetensors.torch as s; x = torch.load(sys.argv[1], map_location='cpu', "
        "weights_only=True); s.save_file({k: v.contiguous() for k, v in x.get('model_state_dict', "
        "x).items()}, sys.argv[2])\" %s DIR/model.safetensors; then --init-from DIR, a folder "
        "that has the model's config.json too",
        path, folder, word);
}

char *resume_path(const char *path, const char *out)
{
    const char *name = path;
    char *bare = without_pt(path), *inside = folder_join(out, path);
    bool here = file_named(path), there = *path != '/' && file_named(inside);
    if (bare && !folder_exists(path) && !folder_exists(inside)) {
        free(inside);
        name = bare;
        inside = folder_join(out, name);
        here = folder_exists(name), there = *name != '/' && folder_exists(inside);
        if (!here && !there)
            refuse_pt(path, name);
        note("--resume %s: using the folder %s", path, here ? name : inside);
    }
    if (!here && !there)
        die(EXIT_NO_CKPT, "--resume %s: no such folder%s%s", name,
            *name == '/' ? "" : " here, nor in ", *name == '/' ? "" : out);
    char *found = format("%s", here ? name : inside);
    for (size_t n = strlen(found); n > 1 && found[n - 1] == '/'; n--)
        found[n - 1] = 0;
    free(inside);
    free(bare);
    return found;
}
