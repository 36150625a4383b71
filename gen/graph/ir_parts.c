/* ir_parts.c -- construction and queries of the intermediate representation.
 *
 * Keeps: value names are unique. Arrays grow: an Op * is valid until the next ir_op(). */
#include "gen/graph/ir.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/dynamic_map.h"
#include "runtime/shares.h"

const char *const dtype_name[NDTYPES] = {"f32", "bf16", "f16", "f64", "i32", "u32", "u8", "i16"};
const int dtype_bytes[NDTYPES] = {4, 2, 2, 8, 4, 4, 1, 2};
const char *const value_kind_name[] = {"param", "state", "input", "value"};
const char *const placement_name[] = {"", "rep", "shard", "partial", "parts"};
#define PURPOSE_TEXT(p) #p,
const char *const purpose_name[NPURPOSES] = {PURPOSES(PURPOSE_TEXT)};
#define ROLE_TEXT(r) #r,
const char *const role_name[NROLES] = {ROLES(ROLE_TEXT)};

/* The slot of a name in by_name; a free one if no value has it. */
static Value **slot_of(const Graph *g, const char *name)
{
    uint32_t h = 2166136261u;            /* FNV-1a */
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    for (;; h++) {
        Value **slot = &g->by_name[h & (uint32_t)(g->capnames - 1)];
        if (!*slot || !strcmp((*slot)->name, name))
            return slot;
    }
}

void ir_index(Graph *g)
{
    g->capnames = 64;
    while (g->capnames < 2 * g->capvalues)
        g->capnames *= 2;
    g->by_name = arena_new(sizeof(Value *) * (size_t)g->capnames);
    for (int i = 0; i < g->nvalues; i++)
        *slot_of(g, g->values[i]->name) = g->values[i];
}

Value *ir_value(const Graph *g, const char *name)
{
    return g->by_name ? *slot_of(g, name) : NULL;
}

static Value *add_value(Graph *g, const char *name)
{
    if (g->nvalues == g->capvalues) {
        size_t was = sizeof(Value *) * (size_t)g->capvalues;
        g->capvalues = g->capvalues ? 2 * g->capvalues : 64;
        g->values = arena_grow(g->values, was, sizeof(Value *) * (size_t)g->capvalues);
        ir_index(g);
    }
    Value *v = g->values[g->nvalues++] = *slot_of(g, name) = arena_new(sizeof(Value));
    v->name = text_copy(name);
    return v;
}

Value *ir_new(Graph *g, ValueKind kind, Purpose purpose, Dtype dt, const char *name, int rank,
              const Dim *dim, Loc loc)
{
    if (ir_value(g, name))
        bug("value %s is defined twice", name);
    if (rank < 0 || rank > (int)(sizeof ((Value *)0)->dim / sizeof (Dim)))
        bug("value %s has %d dimensions", name, rank);
    Value *v = add_value(g, name);
    v->kind = kind;
    v->purpose = purpose;
    v->dtype = dt;
    v->rank = rank;
    for (int i = 0; i < rank; i++)
        v->dim[i] = dim[i];
    v->slots = 1;
    v->loc = loc;
    v->first = v->last = -1;
    return v;
}

Ref ref(Value *v) { return (Ref){v, IX_NONE, 0}; }
Ref ref_at(Value *v, int64_t k) { return (Ref){v, IX_CONST, k}; }
Ref ref_loop(Value *v, int64_t k) { return (Ref){v, IX_LOOP, k}; }
Ref ref_micro(Value *v) { return (Ref){v, IX_MICRO, 0}; }

int64_t value_elements(const Value *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++)
        if (__builtin_mul_overflow(n, v->dim[i].n, &n))
            err(v->loc, "%s has more than 2^63 elements", v->name);
    return n;
}

bool value_is_own_part(const Value *v)
{
    return v->part && v->place == PL_PARTS && !v->gathered;
}

const Value *absmax_moment(const Graph *g, const Value *v)
{
    const Value *of = v->of ? ir_value(g, v->of) : NULL;
    return of && of->kind == VK_STATE && of->dtype == DT_U8 ? of : NULL;
}

int64_t absmax_part(const Value *moment)
{
    const int64_t own = (moment->count ? moment->count : 1) * (moment->part / DYNAMIC_BLOCK);
    return (own + SHARE_UNIT - 1) / SHARE_UNIT * SHARE_UNIT;
}

bool value_is_gradient(const Value *v)
{
    return v->kind == VK_STATE && v->purpose == PU_gradients;
}

bool value_is_weight(const Value *v, const Value *param)
{
    return v == param || (v->kind == VK_TEMP && v->purpose == PU_weights && v->of &&
                          !strcmp(v->of, param->name));
}

bool value_is_nf4(const Value *v) { return v->kind == VK_PARAM && v->dtype == DT_U8; }

int64_t piece_columns(const Value *v, const Piece *piece)
{
    return piece->cols ? piece->cols : v->dim[1].n;
}

int64_t value_bytes(const Value *v) { return value_elements(v) * dtype_bytes[v->dtype]; }

bool graph_calls_cudnn(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++)
            if (op_attr(&g->programs[i]->ops[j], "cudnn"))
                return true;
    return false;
}

int64_t graph_pinned_bytes(const Graph *g)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->nvalues; i++)
        bytes += g->values[i]->pinned ? g->values[i]->slots * g->values[i]->stride : 0;
    return bytes;
}

enum { SNAPSHOT_ALIGN = 64 };

/* Bytes that all ranks together store of a value, aligned; v NULL: 0. */
static int64_t undivided_bytes(const Graph *g, const Value *v)
{
    if (!v)
        return 0;
    const int64_t tensors = v->count ? v->count : 1, size = dtype_bytes[v->dtype],
                  bytes = v->place == PL_PARTS ? v->part * g->ranks * size
                          : v->count           ? v->stride
                                               : value_bytes(v);
    return (tensors * bytes + SNAPSHOT_ALIGN - 1) / SNAPSHOT_ALIGN * SNAPSHOT_ALIGN;
}

/* Bytes of a state PREFIX.NAME of a parameter, with the magnitudes of an 8-bit one. */
static int64_t state_bytes(const Graph *g, const char *prefix, const Value *param)
{
    const Value *v = ir_value(g, text_print("%s.%s", prefix, param->name)), *absmax = NULL;
    for (int i = 0; v && i < g->nvalues && !absmax; i++)
        absmax = absmax_moment(g, g->values[i]) == v ? g->values[i] : NULL;
    if (!absmax || v->place != PL_PARTS)
        return undivided_bytes(g, v) + undivided_bytes(g, absmax);
    const int64_t tensors = v->count ? v->count : 1,
                  bytes = tensors * (v->part * g->ranks / DYNAMIC_BLOCK) * dtype_bytes[DT_F32];
    return undivided_bytes(g, v) + (bytes + SNAPSHOT_ALIGN - 1) / SNAPSHOT_ALIGN * SNAPSHOT_ALIGN;
}

int64_t graph_snapshot_bytes(const Graph *g)
{
    static const char *const master[] = {"master", "remainder"}, *const moment[] = {"m", "v"};
    int64_t bytes = 0;
    for (int i = 0; i < g->nvalues && g->setting[SETTING_checkpoint].text; i++) {
        const Value *v = g->values[i];
        if (v->kind != VK_PARAM)
            continue;
        const bool stored = v->adapter || v->not_in_model || !ir_size(g, "R");
        bytes += stored ? undivided_bytes(g, v) : 0;
        for (int k = 0; k < 2; k++)
            bytes += (stored ? state_bytes(g, master[k], v) : 0) + state_bytes(g, moment[k], v);
    }
    return bytes;
}

const char *value_set(const Value *v) { return v->set ? v->set : "model"; }

bool value_same_set(const Value *v, const Value *w) { return !strcmp(value_set(v), value_set(w)); }

int64_t value_parameters(const Value *v)
{
    int64_t n = 0;
    for (int i = 0; i < v->npieces && !v->not_in_model; i++)
        n += v->piece[i].rows * (v->rank < 2 ? 1 : piece_columns(v, &v->piece[i]));
    return n * (v->count ? v->count : 1);
}

/* Capacity doubles at powers of two. */
void *ir_one_more(void *list, int n)
{
    if (n & (n - 1))
        return list;
    return arena_grow(list, sizeof(void *) * (size_t)n, sizeof(void *) * (size_t)(n ? 2 * n : 1));
}

Program *ir_program(Graph *g, const char *name, Role role, const char *about)
{
    Program *p = arena_new(sizeof *p);
    p->name = text_copy(name);
    p->about = text_copy(about);
    p->role = role;
    p->region = arena_new(sizeof *p->region);
    g->programs = ir_one_more(g->programs, g->nprograms);
    return g->programs[g->nprograms++] = p;
}

void ir_size_add(Graph *g, const char *name, int64_t n, const char *about)
{
    size_t each = sizeof *g->size;
    g->size = arena_grow(g->size, each * (size_t)g->nsizes, each * (size_t)(g->nsizes + 1));
    g->size[g->nsizes++] = (Size){text_copy(name), n, text_copy(about)};
}

int64_t ir_size(const Graph *g, const char *name)
{
    for (int i = 0; i < g->nsizes; i++)
        if (!strcmp(g->size[i].name, name))
            return g->size[i].n;
    return 0;
}

int ir_region(Program *p, Dim count, bool reverse)
{
    size_t n = (size_t)++p->nregions;
    p->region = arena_grow(p->region, sizeof *p->region * n, sizeof *p->region * (n + 1));
    p->region[n] = (Region){count, reverse};
    return p->nregions;
}

const Region *ir_region_of(const Program *p, const Value *v)
{
    for (int i = 0; i < p->nops; i++) {
        const Op *op = &p->ops[i];
        for (int k = 0; k < op->nin + op->nout && op->region; k++) {
            Ref r = k < op->nin ? op->in[k] : op->out[k - op->nin];
            if (r.v == v && r.index == IX_LOOP)
                return &p->region[op->region];
        }
    }
    return NULL;
}

bool op_runs(const Program *p, const Op *op, int64_t l, int64_t turns)
{
    const Attr *when = op_attr(op, "if");
    const Region *loop = &p->region[op->region];
    if (!when || !op->region)
        return true;
    if (!strcmp(when->word, "later"))
        return l != (loop->reverse ? turns - 1 : 0);
    for (int k = 0; k < op->nin + op->nout; k++) {
        const Ref r = k < op->nin ? op->in[k] : op->out[k - op->nin];
        if (r.index == IX_LOOP && (l + r.k < 0 || l + r.k >= r.v->count - loop->count.n + turns))
            return false;
    }
    return true;
}

int64_t op_turns(const Program *p, const Op *op)
{
    const int64_t turns = op->region ? p->region[op->region].count.n : 1;
    int64_t left_out = 0;
    for (int64_t l = 0; op_attr(op, "if") && l < turns; l++)
        left_out += !op_runs(p, op, l, turns);
    return turns - left_out;
}

Op *ir_op(Program *p, int kind, int region, Loc loc)
{
    if (p->nops == p->capops) {
        size_t was = sizeof(Op) * (size_t)p->capops;
        p->capops = p->capops ? 2 * p->capops : 128;
        p->ops = arena_grow(p->ops, was, sizeof(Op) * (size_t)p->capops);
    }
    Op *op = &p->ops[p->nops++];
    *op = (Op){.kind = kind, .region = region, .group = -1, .loc = loc};
    return op;
}

static void add_ref(Ref **list, int *n, int *cap, Ref r)
{
    if (*n == *cap) {
        size_t was = sizeof(Ref) * (size_t)*cap;
        *cap = *cap ? 2 * *cap : 6;
        *list = arena_grow(*list, was, sizeof(Ref) * (size_t)*cap);
    }
    (*list)[(*n)++] = r;
}

void op_in(Op *op, Ref r) { add_ref(&op->in, &op->nin, &op->capin, r); }
void op_out(Op *op, Ref r) { add_ref(&op->out, &op->nout, &op->capout, r); }

static Attr *add_attr(Op *op, const char *key)
{
    if (op->nattr == (int)(sizeof op->attr / sizeof op->attr[0]))
        bug("too many attributes on one op: %s", key);
    Attr *a = &op->attr[op->nattr++];
    a->key = text_copy(key);
    return a;
}

void op_int(Op *op, const char *key, int64_t i)
{
    Attr *a = add_attr(op, key);
    a->type = ATTR_INT;
    a->i = i;
}

void op_float(Op *op, const char *key, double f)
{
    Attr *a = add_attr(op, key);
    a->type = ATTR_FLOAT;
    a->f = f;
}

void op_word(Op *op, const char *key, const char *word)
{
    Attr *a = add_attr(op, key);
    a->type = ATTR_WORD;
    a->word = text_copy(word);
}

const Attr *op_attr(const Op *op, const char *key)
{
    for (int i = 0; i < op->nattr; i++)
        if (!strcmp(op->attr[i].key, key))
            return &op->attr[i];
    return NULL;
}

/* Shortest text of a float that still has the form of one: 1.0, 0.125, 1e-05. */
char *text_float(double f)
{
    char *text = text_print("%.9g", f);
    return strpbrk(text, ".en") ? text : text_print("%s.0", text);
}

char *attr_text(const Attr *a)
{
    return a->type == ATTR_INT     ? text_print("%" PRId64, a->i)
           : a->type == ATTR_FLOAT ? text_float(a->f)
                                   : text_copy(a->word);
}
