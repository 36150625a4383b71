/* emit_sites.c -- names of dropout sites: SITE_UP is a site, SITES the number of a layer's.
 *
 * In:    attributes site and sites of ops with dropout.
 * Out:   rows of shape.h, arguments of calls.
 * Method: a site has the name of what is dropped: the layer whose adapters read it, the operand of
 *         dropout, or attention's result. */
#include "gen/emit/emit.h"

#include <inttypes.h>
#include <string.h>

/* site: in a layer its number in layer 0; sites: of that layer, 0: it is in no layer. */
typedef struct { const char *name, *what; int64_t site, sites; } Site;
typedef struct { int n; Site *list; } Sites;

/* Name of what the op drops. The op is of the first pass that draws at its site, a forward pass. */
static char *dropped(const Program *p, const Op *op)
{
    const Call c = {.p = p};
    if (op->kind == OP_lora || op->kind == OP_lora_fold)
        return weight_layer(&c, op->in[2].v);
    const bool own = op->kind == OP_dropout || op->kind == OP_dropout_rows;
    const char *name = own ? op->in[0].v->name : op->out[0].v->name;
    return text_copy(name + (strncmp(name, "b.", 2) ? 0 : 2));
}

static const Site *site_of(const Sites *s, const Op *op)
{
    const int64_t site = op_attr(op, "site")->i, sites = op_attr(op, "sites")->i;
    for (int i = 0; i < s->n; i++)
        if (s->list[i].site == site && s->list[i].sites == sites)
            return &s->list[i];
    return NULL;
}

static char *new_name(const Sites *s, const char *what)
{
    const char *first = text_print("SITE_%s", text_capitals(c_name(what)));
    char *name = text_copy(first);
    for (int i = 0, k = 2; i < s->n; i++)
        if (!strcmp(s->list[i].name, name)) {
            name = text_print("%s_%d", first, k++);
            i = -1;
        }
    return name;
}

static Sites sites_of(const Graph *g)
{
    Sites s = {0};
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Op *op = &g->programs[i]->ops[k];
            if (!op_attr(op, "site") || site_of(&s, op))
                continue;
            const char *what = dropped(g->programs[i], op);
            const size_t bytes = sizeof *s.list * (size_t)s.n;
            s.list = arena_grow(s.list, bytes, bytes + sizeof *s.list);
            s.list[s.n] = (Site){new_name(&s, what), what, op_attr(op, "site")->i,
                                 op_attr(op, "sites")->i};
            s.n++;
        }
    return s;
}

/* Number of sites of a layer; 0: none is in one. */
static int64_t of_layer(const Sites *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].sites)
            return s->list[i].sites;
    return 0;
}

void print_sites(Str *text, const Graph *g)
{
    const Sites s = sites_of(g);
    if (of_layer(&s))
        print_constant(text, "SITES", of_layer(&s), "dropout sites of a layer");
    for (int i = 0; i < s.n; i++)
        print_constant(text, s.list[i].name, s.list[i].site,
                       text_print(s.list[i].sites ? "site of %s, in layer 0" : "site of %s",
                                  s.list[i].what));
}

char *site_text(const Call *c, const Op *op)
{
    if (!op_attr(op, "site"))
        return text_copy(argument_name(c->g, op, "site"));
    const Sites s = sites_of(c->g);
    const Site *site = site_of(&s, op);
    if (!site->sites)
        return text_copy(site->name);
    return text_print("%s * l + %s", site->sites == of_layer(&s) ? "SITES" : integer(site->sites),
                      site->name);
}
