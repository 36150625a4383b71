/* keep.c -- values of recomputed blocks that the forward pass keeps: memory.keep.
 *
 * In:    a block's forward pass, and the same ops again before its backward pass.
 * Out:   the backward pass reads the kept values of the former; what the latter computes only for
 *        them is dead. */
#include "gen/config/kept.h"
#include "gen/graph/graph.h"

#include <string.h>

/* True if the recipe keeps the value of that name in families.c. */
static bool is_kept(const Build *b, const char *name)
{
    const char *word = kept_word(name);
    return word && config_listed(b->c, F_memory_keep, word);
}

/* True if the op has to run again: it makes a matrix of weights, or a value into which adapters are
 * folded in place. */
static bool is_repeated(const Program *p, const Op *op)
{
    if (op->kind == OP_dequant || op->kind == OP_lora_fold)
        return true;
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < op->nout && p->ops[i].kind == OP_lora_fold; k++)
            if (p->ops[i].in[0].v == op->out[k].v)
                return true;
    return false;
}

/* Returns true if an op reads the value. */
static bool replace(Program *p, int first, const Value *again, Ref kept)
{
    bool found = false;
    for (int i = first; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nin; k++)
            if (p->ops[i].in[k].v == again)
                p->ops[i].in[k] = kept, found = true;
    return found;
}

/* Notes that a word of memory.keep has an effect. */
static void note_word(Build *b, const char *word)
{
    const char *all[KEPT_WORDS];
    for (int i = 0; i < kept_words(all); i++)
        if (!strcmp(all[i], word))
            b->words_kept |= 1u << i;
}

void check_kept(const Build *b)
{
    const FieldValue *keep = &b->c->v[F_memory_keep];
    const char *all[KEPT_WORDS];
    const int n = kept_words(all);
    for (int i = 0; keep->set && i < keep->n; i++)
        for (int k = 0; k < n; k++)
            if (!strcmp(all[k], keep->list[i]) && !(b->words_kept >> k & 1))
                err(keep->loc, "memory.keep: \"%s\" has no effect: the backward pass of this "
                    "recipe reads nothing of it that could be kept; leave it out", all[k]);
}

void keep_values(Build *b, int block, int again, int n)
{
    const char *pass = b->program_prefix ? b->program_prefix : "",
               *prefix = text_print("b.%s%s", pass, b->stack.name);
    for (int i = 0; i < n; i++) {
        const Op *op = &b->p->ops[block + i], *other = &b->p->ops[again + i];
        if (op->kind != other->kind || op->nout != other->nout)
            bug("%s is computed again by %s", op_row[op->kind].name, op_row[other->kind].name);
        for (int k = 0; k < op->nout && !is_repeated(b->p, op); k++) {
            const Ref kept = op->out[k];
            if (!strncmp(kept.v->name, prefix, strlen(prefix)) &&
                is_kept(b, kept.v->name + strlen(prefix)) &&
                replace(b->p, again, other->out[k].v, kept))
                note_word(b, kept_word(kept.v->name + strlen(prefix)));
        }
    }
}
