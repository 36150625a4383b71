/* inputs.c -- input values from the rows of inputs.def.
 *
 * In:    a row, the sizes of the recipe.
 * Out:   an input with its shape and placement.
 * Keeps: the emitted StepIO and the runtime's Batch come from the same rows. */
#include "gen/graph/graph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/adamw_args.h"

static const InputRow input_rows[] = {
#define DTYPE_i32 DT_I32
#define DTYPE_u32 DT_U32
#define DTYPE_f32 DT_F32
#define EACH_micro .micro = true
#define EACH_step .micro = false
#define EACH_set .of_set = true
#define INPUT(input, type, sizes, each, place, text) \
    {.name = #input, .dtype = DTYPE_##type, .dims = sizes, EACH_##each, \
     .sharded = PL_##place == PL_SHARD, .doc = text},
#include "runtime/data/inputs.def"
#undef INPUT
};
enum { INPUTS = sizeof input_rows / sizeof input_rows[0] };

const InputRow *input_row(const char *name)
{
    for (int i = 0; i < INPUTS; i++) {
        const InputRow *row = &input_rows[i];
        size_t n = strlen(row->name);
        if (!strcmp(row->name, name) ||
            (row->of_set && !strncmp(row->name, name, n) && name[n] == '.'))
            return row;
    }
    return NULL;
}

static Dim size_of(const Build *b, const char *word)
{
    const Size *size = size_find(b, word);
    if (size)
        return dim(size->n, size->name);
    if (isdigit((unsigned char)word[0]))
        return dim(atoll(word), word);
    bug("no size %s", word);
}

/* The last is only for fp16. */
static Dim adamw_entries(const Build *b)
{
    int n = b->model.act == DT_F16 ? ADAMW_UNSCALE + 1 : ADAMW_UNSCALE;
    return dim(n, text_print("%d", n));
}

/* Appends the dimensions of a word. */
static int add_dims(const Build *b, const char *word, Dim *d)
{
    if (!strcmp(word, "rows") && !b->added.targets) {
        d[0] = size_of(b, "B"), d[1] = size_of(b, "T");
        return 2;
    }
    d[0] = !strcmp(word, "rows")    ? size_of(b, "N")
           : !strcmp(word, "adamw_args") ? adamw_entries(b)
                                    : size_of(b, word);
    return 1;
}

/* name: of the input: its row's, or that of a group */
static Value *input_named(Build *b, const InputRow *row, const char *name)
{
    enum { MOST = sizeof((Value *)0)->dim / sizeof(Dim) };
    Dim d[MOST + 1];
    int rank = 0;
    for (const char *word = row->dims; *word && rank <= MOST; word += strspn(word, ",")) {
        size_t n = strcspn(word, ",");
        rank += add_dims(b, text_print("%.*s", (int)n, word), d + rank);
        word += n;
    }
    if (rank > MOST)
        bug("inputs.def: %s has more than %d dimensions", row->name, MOST);
    Value *v = ir_new(b->g, VK_INPUT, PU_inputs, row->dtype, name, rank, d, b->loc);
    int64_t accum = config_int(b->c, F_batch_accum);
    if (row->micro && accum > 1)
        v->count = v->slots = accum;
    v->place = row->sharded && b->g->ranks > 1 ? PL_SHARD : PL_REP;
    return v;
}

Value *input_new(Build *b, const char *name)
{
    const InputRow *row = input_row(name);
    if (!row)
        bug("inputs.def has no row %s", name);
    Value *v = input_named(b, row, row->of_set ? set_word(b, name) : name);
    if (row->of_set)
        v->set = b->set->name;
    return v;
}
