/* new_data.c -- sequence lengths of a user's data, for `gen new --data`. */
#include "gen/tools/new_data.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "gen/commands.h"
#include "gen/tools/tools.h"
#include "runtime/pack/pack.h"

/* An objective's samples come from the data as they are, or it cuts texts itself (masked language
 * models). */
static bool reads_samples(const Objective *o)
{
    return names_listed(o->kinds, kind_name[KIND_PAIRS]) ||
           names_listed(o->kinds, kind_name[KIND_PACKED]);
}

static void check_folder(const ModelFolder *m, const char *file)
{
    const Objective *o = m->objective;
    struct stat st;
    if (stat(file, &st))
        err((Loc){0}, "new: --data %s: %s", file,
            errno == ENOENT ? "no such file" : strerror(errno));
    if (!reads_samples(o))
        err((Loc){0},
            "new: --data %s: seq.max of objective=%s does not follow from the lengths of samples; "
            "leave --data out, and choose seq.max",
            file, o->name);
    if (!m->tokenizer)
        err((Loc){0}, "new: --data %s: %s has no tokenizer.json to count its tokens with", file,
            m->path);
    if (m->tokenizer_fault)
        err((Loc){0}, "new: --data %s: %s cannot be read: %s", file, m->tokenizer,
            m->tokenizer_fault);
    if (!pack_is_raw(file))
        err((Loc){0}, "new: --data %s: packed already; give it the rows that it was packed from",
            file);
}

typedef struct { Lengths *length; Kind kind; } Count;

/* Adds a row's length before any cut; of a pair, that of its longer sequence. */
static void count_row(void *user, const PackedRow *r)
{
    Count *c = user;
    if (!r || r->row->drop)
        return;
    const size_t first = r->row->second, rest = r->row->n - first;
    c->kind = pack_format[r->row->form].kind;
    if (c->kind != KIND_PACKED)
        lengths_add(c->length, first > rest ? first : rest);
}

SampleLengths sample_lengths(const ModelFolder *m, const char *file)
{
    check_folder(m, file);
    const char *kinds = m->objective->kinds;
    char *files[] = {(char *)file};
    const PackOptions o = {
        .who = "gen new",
        .tokenizer = m->tokenizer,
        .formats = pack_all_formats,
        .nfiles = 1,
        .file = files,
        .format_flag = "--format",
        .command = text_print("gen pack -o OUT.safetensors --tokenizer %s %s",
                              text_shell(m->tokenizer), text_shell(file)),
    };
    Count c = {arena_new(sizeof *c.length), KIND_PACKED};
    if (pack_is_rows(file)) {
        PackError e = pack_each(&o, count_row, &c);
        if (e.text)
            err((Loc){e.file, e.line}, "%s%s", e.file ? "" : "new: --data: ", e.text);
    }
    const Lengths *l = c.length;
    const char *kind = kind_name[c.kind];
    if (!names_listed(kinds, kind))
        err((Loc){0}, "new: --data %s: its samples are %s, but objective=%s trains on %s%s", file,
            kind, m->objective->name, kinds, objective_for(kind));
    return (SampleLengths){.file = file,
                           .kind = kind,
                           .samples = l->n,
                           .longest = l->n ? lengths_up_to(l, 1) : 0,
                           .most = l->n ? lengths_up_to(l, 0.95) : 0,
                           .length = l};
}
