/* ir.c -- the intermediate representation as text; ir_read.c parses it.
 *
 * One value, op, repeat mark or group per line; each room appends columns.
 * Keeps: print(parse(x)) == x, so that a dump can be edited, compared and read back. */
#define _GNU_SOURCE
#include "gen/graph/kernels.h"

#include <inttypes.h>
#include <string.h>

static void print_loc(Str *s, Loc loc)
{
    if (loc.file)
        str_print(s, "  # %s:%d", recipe_name(loc.file), loc.line);
    str_print(s, "\n");
}

static char sigil(const Value *v) { return v->kind <= VK_STATE ? '$' : '%'; }

static void print_ref(Str *s, Ref r)
{
    str_print(s, "%c%s", sigil(r.v), r.v->name);
    if (r.index == IX_CONST)
        str_print(s, "[%" PRId64 "]", r.k);
    else if (r.index == IX_LOOP && r.k)
        str_print(s, "[l%+" PRId64 "]", r.k);
    else if (r.index != IX_NONE)
        str_print(s, r.index == IX_LOOP ? "[l]" : "[m]");
}

static void print_refs(Str *s, const Ref *r, int n)
{
    for (int i = 0; i < n; i++) {
        str_print(s, "%s", i ? ", " : "");
        print_ref(s, r[i]);
    }
}

static void print_value(Str *s, const Value *v)
{
    str_print(s, "%s %c%s", value_kind_name[v->kind], sigil(v), v->name);
    if (v->count)
        str_print(s, "  x%" PRId64 " slots %" PRId64, v->count, v->slots);
    str_print(s, "  :%s[", dtype_name[v->dtype]);
    for (int i = 0; i < v->rank; i++)
        str_print(s, "%s%" PRId64, i ? "," : "", v->dim[i].n);
    str_print(s, "] (");
    for (int i = 0; i < v->rank; i++)
        str_print(s, "%s%s", i ? "," : "", v->dim[i].sym);
    str_print(s, ")  %s", purpose_name[v->purpose]);
    if (v->of)
        str_print(s, " of %s", v->of);
    if (v->early)
        str_print(s, " early");
    if (v->set)
        str_print(s, " set %s", v->set);
    if (v->part)
        str_print(s, " part %" PRId64 "%s", v->part, v->gathered ? " gathered" : "");
    if (v->pinned)
        str_print(s, " pinned");
    if (v->kind == VK_PARAM)
        str_print(s, "%s%s%s%s%s%s  init %s %.9g", v->trained ? " trained" : " frozen",
                  v->decay ? " decay" : "", v->adapter ? " adapter" : "",
                  v->optional_in_checkpoint ? " optional_in_checkpoint" : "",
                  v->extra_vocab_row ? " extra_vocab_row" : "",
                  v->not_in_model ? " not_in_model" : "", v->init, v->std);
    if (v->place)
        str_print(s, "  %s", placement_name[v->place]);
    if (v->place == PL_SHARD)
        str_print(s, " %d", v->axis);
    if (v->internal)
        str_print(s, "  internal");
    else if (v->arena)
        str_print(s, "  at %s+0x%" PRIx64 " stride %" PRId64 "  live %d..%d", v->arena, v->offset,
                  v->stride, v->first, v->last);
    print_loc(s, v->loc);
    for (int i = 0; i < v->npieces; i++)
        str_print(s, "  hf \"%s\" rows %" PRId64 " %" PRId64 "%s%s\n", v->piece[i].name,
                  v->piece[i].row0, v->piece[i].rows,
                  v->piece[i].cols ? text_print(" cols %" PRId64, v->piece[i].cols) : "",
                  v->piece[i].transposed ? " transposed" : "");
}

static void print_op(Str *s, const Op *op, bool indent)
{
    str_print(s, indent ? "    " : "  ");
    print_refs(s, op->out, op->nout);
    str_print(s, " = %s ", op_row[op->kind].name);
    print_refs(s, op->in, op->nin);
    for (int i = 0; i < op->nattr; i++)
        str_print(s, "  %s %s", op->attr[i].key, attr_text(&op->attr[i]));
    print_loc(s, op->loc);
}

int group_number(const Graph *g, const Program *p, int index)
{
    for (int i = 0; g->programs[i] != p; i++)
        index += g->programs[i]->ngroups;
    return index;
}

static void print_group(Str *s, const Graph *g, const Program *p, int index)
{
    const Group *group = &p->groups[index];
    str_print(s, "@g%d %s", group_number(g, p, index), kernel_word(group->kernel));
    if (group->workspace)
        str_print(s, "  workspace %" PRId64, group->workspace);
    if (group->ws)
        str_print(s, " in %%%s", group->ws->name);
    str_print(s, "\n");
}

static void print_program(Str *s, const Graph *g, const Program *p)
{
    str_print(s, "\nprogram %s  %s  \"%s\"\n", p->name, role_name[p->role], p->about);
    int region = 0, group = -1;
    const char *stage = "none";
    for (int i = 0; i < p->nops; i++) {
        const Op *op = &p->ops[i];
        if (op->region != region) {
            if (region)
                str_print(s, "end\n");
            region = op->region;
            if (region)
                str_print(s, "repeat %" PRId64 " (%s) %s\n", p->region[region].count.n,
                          p->region[region].count.sym, p->region[region].reverse ? "down" : "up");
        }
        if (op->group != group && op->group >= 0)
            print_group(s, g, p, group = op->group);
        if (strcmp(op->stage ? op->stage : "none", stage))
            str_print(s, "%s-- %s\n", region ? "    " : "  ",
                      stage = op->stage ? op->stage : "none");
        print_op(s, op, region);
    }
    if (region)
        str_print(s, "end\n");
}

/* schedule train   clear $loss, begin, micro * 4, reduce, update  -> $loss, $total_norm  "..." */
static void print_schedule(Str *s, const Schedule *c)
{
    str_print(s, "schedule %-7s", c->name);
    for (int i = 0; i < c->nitems; i++) {
        const Item *item = &c->item[i];
        str_print(s, i ? ", " : " ");
        if (!item->program) {
            str_print(s, "clear ");
            print_ref(s, ref(item->clears));
        } else
            str_print(s, "%s", item->program->name);
        if (item->times > 1)
            str_print(s, " * %" PRId64, item->times);
    }
    for (int i = 0; i < c->nresults; i++) {
        str_print(s, i ? ", " : "  -> ");
        print_ref(s, ref(c->result[i]));
    }
    str_print(s, "%s  \"%s\"\n", c->captured ? "  captured" : "", c->about);
}

static char *quoted(const char *text)
{
    FieldValue v = {.s = text};
    return value_print(FT_STRING, &v);
}

/* Prints lines with a bar in front of each, which preserves a missing final newline. */
static void print_lines(Str *s, const char *text)
{
    for (const char *end; text; text = *end ? end + 1 : NULL) {
        end = strchrnul(text, '\n');
        str_print(s, "|%s%.*s\n", end > text ? " " : "", (int)(end - text), text);
    }
}

/* set precision "fp32"  # recipes/x.lua:4 */
static void print_setting(Str *s, const char *name, SettingType kind, const GraphSetting *f)
{
    for (int i = 0; kind == SETTING_IS_WORDS && i < f->n; i++)
        str_print(s, "set %s %s\n", name, quoted(f->word[i]));
    if (kind == SETTING_IS_WORDS || (kind == SETTING_IS_LINES && !f->text))
        return;
    str_print(s, "set %s", name);
    if (kind == SETTING_IS_INT)
        str_print(s, " %" PRId64, f->i);
    else if (kind != SETTING_IS_LINES)
        str_print(s, " %s", quoted(f->text));
    print_loc(s, f->loc);
    if (kind == SETTING_IS_LINES)
        print_lines(s, f->text);
}

char *ir_print(const Graph *g)
{
    Str s = {0};
    str_print(&s, "# %s  objective %s  family %s  target %s  ranks %" PRId64 "\n", g->room,
              g->objective, g->family, g->target->name, g->ranks);
    if (!strcmp(g->room, "plan"))
        str_print(&s, "# arena %" PRId64 "  bound %" PRId64 "  persistent %" PRId64 "  placed %s\n",
                  g->arena_bytes, g->lower_bound, g->persistent_bytes, g->plan_method);
    for (int i = 0; i < NSETTINGS; i++) {
        GraphSetting setting = g->setting[i];
        if (i == SETTING_recipe)
            setting.text = recipe_name(setting.text);
        print_setting(&s, setting_row[i].name, setting_row[i].kind, &setting);
    }
    for (int i = 0; i < g->nsizes; i++)
        str_print(&s, "size %s %" PRId64 "  \"%s\"\n", g->size[i].name, g->size[i].n,
                  g->size[i].about);
    for (int i = 0; i < g->nschedules; i++)
        print_schedule(&s, g->schedules[i]);
    for (int i = 0; i < g->nvalues; i++)
        print_value(&s, g->values[i]);
    for (int i = 0; i < g->nprograms; i++)
        print_program(&s, g, g->programs[i]);
    return s.text;
}
