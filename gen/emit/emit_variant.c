/* emit_variant.c -- kernel variants: the variant of each call.
 *
 * In:    a call of the graph after plan, the lock file.   Out: {variant} of the call.
 * Keeps: each call is looked up once, by its lock-file key. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"

#include <inttypes.h>
#include <string.h>

static struct { int n; TunedCall list[64]; } variants;

void variants_clear(void) { variants.n = 0; }

int variants_list(TunedCall **list) { return *list = variants.list, variants.n; }

/* Returns the tuner's pointer to an operand. */
char *variant_operand(TunedCall *t, Ref r, bool out)
{
    int i = 0;
    while (i < t->n && (t->operand[i].r.v != r.v || t->operand[i].r.index != r.index ||
                        t->operand[i].r.k != r.k))
        i++;
    if (i == (int)(sizeof t->operand / sizeof t->operand[0]))
        bug("too many operands of %s", t->key);
    t->n += i == t->n;
    t->operand[i].r = r;
    t->operand[i].out |= out;
    return text_print("(%s *)p[%d]", c_type(r.v->dtype), i);
}

/* Returns the lock-file key of a call, its family and the largest of its dimensions. */
static TunedCall tuned_call(const Call *c, const char *word)
{
    char *copy = text_copy(word), *save = NULL;
    const VariantRow *row = variant_find(strtok_r(copy + strlen("variant "), "|", &save));
    TunedCall t = {.row = row, .call = *c, .nvalues = 1, .value = {row->value[0]}};
    Str key = {0};
    str_print(&key, "%s %s", kernel_row[c->group->kernel].name,
              c->g->setting[SETTING_precision].text);
    for (const char *dim; (dim = strtok_r(NULL, "|", &save));) {
        int64_t n = call_measure(c, dim).n;
        str_print(&key, " %.*s %" PRId64, (int)strcspn(dim, ":"), dim, n);
        t.depth = n > t.depth ? n : t.depth;
    }
    t.key = key.text;
    return t;
}

double group_seconds(const Graph *g, const Program *p, const Group *group)
{
    const Call c = {.g = g, .p = p, .group = group};
    const char *word = strstr(kernel_row[group->kernel].args, "{variant ");
    return !word || !*emit_backend(g)->tuner
               ? 0
               : lock_kernel_seconds(
                     g, tuned_call(&c, text_print("%.*s", (int)strcspn(word + 1, "}"), word + 1))
                            .key);
}

/* Returns the text for {variant family|dim|dim..}: the value measured for a call of these
 * dimensions, or the default. In the tuner it is a template argument. */
char *variant_text(const Call *c, const char *word)
{
    if (c->tuned)
        return text_copy("VARIANT");
    TunedCall t = tuned_call(c, word);
    const VariantRow *row = t.row;
    const char *key = t.key;
    for (int i = 1; i < row->n; i++)
        if (row->fits(&c->p->ops[c->group->first_op], row->value[i]))
            t.value[t.nvalues++] = row->value[i];
    if (t.nvalues == 1)
        return text_print("%d", row->value[0]);
    int known = 0;
    while (known < variants.n && strcmp(variants.list[known].key, key))
        known++;
    if (known == (int)(sizeof variants.list / sizeof variants.list[0]))
        bug("too many calls with variants");
    if (known == variants.n)
        variants.list[variants.n++] = t;
    const char *chosen = lock_variant(c->g, key);
    for (int i = 0; chosen && i < t.nvalues; i++)
        if (!strcmp(chosen, text_print("%d", t.value[i])))
            return text_copy(chosen);
    if (chosen)
        err((Loc){lock_path(c->g), 0}, "%s: has no variant %s; delete that row", key, chosen);
    return text_print("%d", row->value[0]);
}
