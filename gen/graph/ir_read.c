/* ir_read.c -- parser for the text of the intermediate representation.
 *
 * In:     the output of ir_print(), perhaps edited by hand.
 * Out:    the graph; user errors name the line.
 * Method: one line at a time, words left to right. */
#define _GNU_SOURCE
#include "gen/graph/kernels.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *p;           /* rest of the line */
    Loc at;                  /* position of the line */
    Graph *g;
    Program *program;
    Value *value;            /* last value, for hf lines */
    int region, group;
    const char *stage;       /* stage of the following ops */
    GraphSetting *lines;             /* setting whose lines follow, or NULL */
    Str text;                /* those lines so far */
    int setting_line[NSETTINGS];   /* line of each setting; 0: absent */
    int nlines;
    int *value_line;         /* line of each value */
    int nlater;              /* schedule lines, parsed after the programs they name */
    struct {
        const char *p;
        int line;
        } *later;
    } Reader;

static void skip_spaces(Reader *r) { while (*r->p == ' ') r->p++; }

static bool accept(Reader *r, const char *text)
{
    skip_spaces(r);
    size_t n = strlen(text);
    if (strncmp(r->p, text, n))
        return false;
    if (isalpha((unsigned char)text[n - 1]) && (isalpha((unsigned char)r->p[n]) || r->p[n] == '_'))
        return false;
    r->p += n;
    return true;
}

static void expect(Reader *r, const char *text)
{
    if (!accept(r, text))
        err(r->at, "expected \"%s\", found \"%.40s\"", text, r->p);
}

/* Longest run of characters that are not in stop. */
static char *read_until(Reader *r, const char *stop)
{
    skip_spaces(r);
    size_t n = strcspn(r->p, stop);
    if (!n)
        err(r->at, "expected a word, found \"%.40s\"", r->p);
    char *word = text_print("%.*s", (int)n, r->p);
    r->p += n;
    return word;
}

/* Text that is emitted as C code. */
static char *read_name(Reader *r)
{
    skip_spaces(r);
    size_t n = strspn(r->p, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (!n || !islower((unsigned char)*r->p))
        err(r->at, "expected a name of lower-case letters, digits and _, found \"%.40s\"", r->p);
    char *name = text_print("%.*s", (int)n, r->p);
    r->p += n;
    return name;
}

static int64_t read_int(Reader *r)
{
    skip_spaces(r);
    char *end;
    errno = 0;
    int64_t i = strtoll(r->p, &end, 0);
    if (end == r->p || errno)
        err(r->at, "expected an integer, found \"%.40s\"", r->p);
    r->p = end;
    return i;
}

static int64_t read_between(Reader *r, int64_t least, int64_t most)
{
    int64_t i = read_int(r);
    if (i < least || i > most)
        err(r->at, "expected an integer from %" PRId64 " to %" PRId64 ", found %" PRId64, least,
            most, i);
    return i;
}

static double read_float(Reader *r)
{
    skip_spaces(r);
    char *end;
    double f = strtod(r->p, &end);
    if (end == r->p || !isfinite(f))
        err(r->at, "expected a number, found \"%.40s\"", r->p);
    r->p = end;
    return f;
}

static char *read_quoted(Reader *r)
{
    expect(r, "\"");
    char *word = read_until(r, "\"");
    expect(r, "\"");
    return word;
}

static int read_choice(Reader *r, const char *const *names, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (*names[i] && accept(r, names[i]))
            return i;
    err(r->at, "expected %s, found \"%.40s\"", what, r->p);
}

static void end_line(Reader *r)
{
    skip_spaces(r);
    if (*r->p)
        err(r->at, "unknown line: \"%.40s\"", r->p);
}

static Loc read_loc(Reader *r)
{
    Loc loc = {0};
    if (accept(r, "#")) {
        skip_spaces(r);
        const char *colon = strrchr(r->p, ':');
        if (!colon)
            err(r->at, "expected FILE:LINE after #, found \"%.40s\"", r->p);
        loc.file = text_print("%.*s", (int)(colon - r->p), r->p);
        r->p = colon + 1;
        loc.line = (int)read_between(r, 0, INT32_MAX);
    }
    end_line(r);
    return loc;
}

static Ref read_ref(Reader *r)
{
    skip_spaces(r);
    if (*r->p != '$' && *r->p != '%')
        err(r->at, "expected %%name or $name, found \"%.40s\"", r->p);
    r->p++;
    char *name = read_until(r, "[, \n");
    Ref x = {ir_value(r->g, name), IX_NONE, 0};
    if (!x.v)
        err(r->at, "%s is not declared", name);
    if (*r->p == '[') {
        r->p++;
        x.index = accept(r, "l") ? IX_LOOP : accept(r, "m") ? IX_MICRO : IX_CONST;
        x.k = *r->p == ']' && x.index != IX_CONST ? 0 : read_int(r);
        expect(r, "]");
    }
    return x;
}

/* add: op_in or op_out */
static void read_refs(Reader *r, Op *op, void (*add)(Op *op, Ref ref))
{
    do {
        skip_spaces(r);
        if (*r->p != '$' && *r->p != '%')
            return;
        add(op, read_ref(r));
    } while (accept(r, ","));
}

static void read_dims(Reader *r, Value *v)
{
    expect(r, "[");
    while (!accept(r, "]")) {
        if (v->rank == (int)(sizeof v->dim / sizeof v->dim[0]))
            err(r->at, "more than %d dimensions", v->rank);
        v->dim[v->rank++].n = read_between(r, 1, INT64_MAX);
        accept(r, ",");
    }
    expect(r, "(");
    int depth = 0, d = 0;
    const char *from = r->p;
    for (; *r->p && (*r->p != ')' || depth); r->p++) {
        depth += (*r->p == '(') - (*r->p == ')');
        if (*r->p == ',' && !depth && d < v->rank) {
            v->dim[d++].sym = text_print("%.*s", (int)(r->p - from), from);
            from = r->p + 1;
        }
    }
    if (d < v->rank)
        v->dim[d++].sym = text_print("%.*s", (int)(r->p - from), from);
    if (d < v->rank)
        err(r->at, "%d dimensions have %d names", v->rank, d);
    expect(r, ")");
}

static void read_value(Reader *r, ValueKind kind)
{
    expect(r, kind <= VK_STATE ? "$" : "%");
    char *name = read_until(r, "[, ");
    if (ir_value(r->g, name))
        err(r->at, "%s is declared twice", name);
    Value *v = ir_new(r->g, kind, 0, 0, name, 0, NULL, (Loc){0});
    if (accept(r, "x")) {
        v->count = read_between(r, 1, INT32_MAX);
        expect(r, "slots");
        v->slots = read_between(r, 1, INT32_MAX);
    }
    expect(r, ":");
    v->dtype = (Dtype)read_choice(r, dtype_name, NDTYPES, "a dtype");
    read_dims(r, v);
    v->purpose = (Purpose)read_choice(r, purpose_name, NPURPOSES, "a purpose");
    if (accept(r, "of"))
        v->of = read_until(r, " \n");
    v->early = accept(r, "early");
    if (accept(r, "set"))
        v->set = read_name(r);
    if (accept(r, "part"))
        v->part = read_between(r, 1, INT64_MAX), v->gathered = accept(r, "gathered");
    v->pinned = accept(r, "pinned");
    if (kind == VK_PARAM) {
        v->trained = accept(r, "trained") || !accept(r, "frozen");
        v->decay = accept(r, "decay");
        v->adapter = accept(r, "adapter");
        v->optional_in_checkpoint = accept(r, "optional_in_checkpoint");
        v->extra_vocab_row = accept(r, "extra_vocab_row");
        v->not_in_model = accept(r, "not_in_model");
        expect(r, "init");
        v->init = read_until(r, " ");
        v->std = read_float(r);
    }
    for (int i = PL_REP; i <= PL_PARTS; i++)
        if (accept(r, placement_name[i]))
            v->place = (Placement)i;
    if (v->place == PL_SHARD)
        v->axis = (int)read_between(r, 0, v->rank);
    v->internal = accept(r, "internal");
    if (accept(r, "at")) {
        v->arena = read_until(r, "+");
        expect(r, "+");
        v->offset = read_between(r, 0, INT64_MAX);
        expect(r, "stride");
        v->stride = read_between(r, 1, INT64_MAX);
        expect(r, "live");
        v->first = (int)read_between(r, -1, INT32_MAX);
        expect(r, "..");
        v->last = (int)read_between(r, -1, INT32_MAX);
    }
    v->loc = read_loc(r);
    r->value = v;
    size_t n = (size_t)r->nlines++, each = sizeof *r->value_line;
    r->value_line = arena_grow(r->value_line, each * n, each * (n + 1));
    r->value_line[n] = r->at.line;
}

static void read_piece(Reader *r)
{
    Value *v = r->value;
    if (!v)
        err(r->at, "hf line before any value");
    v->piece = arena_grow(v->piece, sizeof(Piece) * (size_t)v->npieces,
                          sizeof(Piece) * (size_t)(v->npieces + 1));
    Piece *piece = &v->piece[v->npieces++];
    piece->name = read_quoted(r);
    expect(r, "rows");
    piece->row0 = read_int(r);
    piece->rows = read_int(r);
    if (accept(r, "cols"))
        piece->cols = read_between(r, 1, INT64_MAX);
    piece->transposed = accept(r, "transposed");
    read_loc(r);
}

static void read_attrs(Reader *r, Op *op)
{
    for (;;) {
        skip_spaces(r);
        if (!isalpha((unsigned char)*r->p))
            return;
        char *key = read_until(r, " ");
        if (op->nattr == (int)(sizeof op->attr / sizeof op->attr[0]))
            err(r->at, "more than %d attributes", op->nattr);
        skip_spaces(r);
        size_t n = strcspn(r->p, " ");
        if (isalpha((unsigned char)*r->p))
            op_word(op, key, read_until(r, " "));
        else if (memchr(r->p, '.', n) || memchr(r->p, 'e', n))
            op_float(op, key, read_float(r));
        else
            op_int(op, key, read_int(r));
    }
}

static void read_op(Reader *r)
{
    Op op = {.region = r->region, .group = r->group, .stage = r->stage};
    read_refs(r, &op, op_out);
    expect(r, "=");
    char *name = read_until(r, " ");
    op.kind = op_find(name);
    if (op.kind == NOPS)
        err(r->at, "%s is no op", name);
    read_refs(r, &op, op_in);
    read_attrs(r, &op);
    op.loc = read_loc(r);
    char *fault = op_fault(r->program, &op);
    if (!fault)
        fault = size_fault_op(r->g, r->program, &op);
    if (fault)
        err(r->at, "%s", fault);
    *ir_op(r->program, op.kind, op.region, op.loc) = op;
    if (op.group >= 0) {
        Group *group = &r->program->groups[op.group];
        group->first_op = group->nops ? group->first_op : r->program->nops - 1;
        if (group->nops && group->region != op.region)
            err(r->at, "group @g%d is in two regions",
                group_number(r->g, r->program, op.group));
        group->region = op.region;
        group->nops++;
    }
}

static void read_group(Reader *r)
{
    Program *p = r->program;
    int64_t number = read_int(r);
    int wanted = group_number(r->g, p, p->ngroups);
    if (number != wanted)
        err(r->at, "expected group @g%d, found @g%" PRId64, wanted, number);
    if (p->nops && p->ops[p->nops - 1].group != p->ngroups - 1)
        err(r->at, "ops before @g%" PRId64 " are in no group, or it is empty", number);
    p->groups = arena_grow(p->groups, sizeof(Group) * (size_t)p->ngroups,
                           sizeof(Group) * (size_t)(p->ngroups + 1));
    Group *group = &p->groups[p->ngroups++];
    char *name = read_until(r, " ");
    group->kernel = kernel_find(name, r->g->target->backend);
    if (group->kernel < 0)
        err(r->at, "%s is not a kernel of target %s", name, r->g->target->name);
    if (accept(r, "workspace"))
        group->workspace = read_between(r, 1, INT64_MAX);
    if (accept(r, "in"))
        group->ws = read_ref(r).v;
    group->pos = wanted;
    r->group = p->ngroups - 1;
    end_line(r);
}

static void end_program(Reader *r)
{
    const Program *p = r->program;
    if (p &&
        (r->region || (p->ngroups && (!p->nops || p->ops[p->nops - 1].group != p->ngroups - 1))))
        err(r->at, "program %s ends within a region, or in a group without ops", p->name);
}

static Program *program_named(const Reader *r, const char *name)
{
    for (int i = 0; i < r->g->nprograms; i++)
        if (!strcmp(r->g->programs[i]->name, name))
            return r->g->programs[i];
    return NULL;
}

static void read_program(Reader *r)
{
    end_program(r);
    char *name = read_name(r);
    if (program_named(r, name))
        err(r->at, "program %s appears twice", name);
    Role role = (Role)read_choice(r, role_name, NROLES, "a role");
    r->program = ir_program(r->g, name, role, read_quoted(r));
    r->region = 0;
    r->group = -1;
    r->stage = NULL;
    end_line(r);
}

static void read_repeat(Reader *r)
{
    Program *p = r->program;
    int64_t count = read_between(r, 1, INT32_MAX);
    expect(r, "(");
    Dim layers = {count, read_until(r, ")")};
    expect(r, ")");
    bool down = accept(r, "down");
    if (!down)
        expect(r, "up");
    if (r->region)
        err(r->at, "repeat regions do not nest");
    r->region = ir_region(p, layers, down);
    end_line(r);
}

/* Reads a value of a schedule that stays in the arena. */
static Value *read_kept(Reader *r)
{
    Ref x = read_ref(r);
    if (x.v->kind != VK_STATE || x.index != IX_NONE)
        err(r->at, "%s: must be a whole state, such as $loss", x.v->name);
    return x.v;
}

static void read_item(Reader *r, Schedule *s)
{
    if (accept(r, "clear")) {
        schedule_clear(s, read_kept(r));
        return;
    }
    char *name = read_name(r);
    Program *p = program_named(r, name);
    if (!p)
        err(r->at, "schedule %s: there is no program %s", s->name, name);
    schedule_run(s, p, accept(r, "*") ? read_between(r, 2, INT32_MAX) : 1);
}

static void read_schedule(Reader *r)
{
    char *name = read_name(r);
    for (int i = 0; i < r->g->nschedules; i++)
        if (!strcmp(r->g->schedules[i]->name, name))
            err(r->at, "schedule %s appears twice", name);
    if (!strcmp(name, "open") || !strcmp(name, "wait") || !strcmp(name, "products"))
        err(r->at, "schedule %s: the program has a step_%s() of its own", name, name);
    Schedule *s = ir_schedule(r->g, name, "");
    do
        read_item(r, s);
    while (accept(r, ","));
    if (accept(r, "->"))
        do
            schedule_result(s, read_kept(r));
        while (accept(r, ","));
    s->captured = accept(r, "captured");
    s->about = read_quoted(r);
    end_line(r);
}

static void keep_for_later(Reader *r)
{
    size_t n = (size_t)r->nlater++, each = sizeof *r->later;
    r->later = arena_grow(r->later, each * n, each * (n + 1));
    r->later[n].p = r->p;
    r->later[n].line = r->at.line;
}

static void read_schedules(Reader *r)
{
    int last = r->at.line;
    for (int i = 0; i < r->nlater; i++) {
        r->p = r->later[i].p;
        r->at.line = r->later[i].line;
        read_schedule(r);
    }
    r->at.line = last;
}

static void end_lines(Reader *r)
{
    if (r->lines)
        r->lines->text = r->text.n ? r->text.text : "";
    r->lines = NULL;
}

static void read_lines(Reader *r)
{
    if (!r->lines)
        err(r->at, "expected a line `set` before this one");
    if (*r->p && *r->p != ' ')
        err(r->at, "expected a blank after |");
    str_print(&r->text, "%s%s", r->text.text ? "\n" : "", r->p + (*r->p == ' '));
}

static char *read_string(Reader *r)
{
    FieldValue v = {0};
    skip_spaces(r);
    const char *wanted = value_parse(FT_STRING, &r->p, &v);
    if (wanted)
        err(r->at, "expected %s, found \"%.40s\"", wanted, r->p);
    return text_copy(v.s);
}

/* Parses one of the words between bars. */
static bool is_choice(const char *choices, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = choices; n && *p; p += strcspn(p, "|"), p += *p == '|')
        if (strcspn(p, "|") == n && !strncmp(p, word, n))
            return true;
    return false;
}

/* Checks text that is emitted to C, make and scripts unchanged. */
static void check_setting(const Reader *r, int setting)
{
    const GraphSetting *f = &r->g->setting[setting];
    const char *name = setting_row[setting].name;
    int field = setting_row[setting].field;
    if (setting == SETTING_recipe || setting == SETTING_name)
        path_check_at(r->at, name, f->text);
    if (setting == SETTING_hash && (strspn(f->text, "0123456789abcdef") != 64 || f->text[64]))
        err(r->at, "hash: must be 64 hexadecimal digits");
    if (setting_row[setting].kind == SETTING_IS_CHOICE && !is_choice(field_choices(field), f->text))
        err(r->at, "%s: must be %s, got %s", name, field_choices(field), f->text);
    if (setting_row[setting].kind != SETTING_IS_INT || field < 0)
        return;
    int64_t most = field_row[field].type == FT_BOOL ? 1 : (int64_t)field_row[field].hi,
            least = field_row[field].type == FT_BOOL ? 0 : (int64_t)field_row[field].lo;
    if (f->i < least || f->i > most)
        err(r->at, "%s: must be %" PRId64 "..%" PRId64 ", got %" PRId64, name, least, most, f->i);
}

static void read_flag(const Reader *r, const char *word)
{
    const char *equal = strchr(word, '=');
    int flag = equal ? run_flag_find(text_print("%.*s", (int)(equal - word), word)) : -1;
    if (flag < 0 || !run_flag[flag].recipe)
        err(r->at, "flags: must be NAME=VALUE of a run-time flag, got %s", word);
}

static void read_setting(Reader *r)
{
    char *name = read_name(r);
    int i = 0;
    while (i < NSETTINGS && strcmp(setting_row[i].name, name))
        i++;
    if (i == NSETTINGS)
        err(r->at, "%s is not a setting", name);
    GraphSetting *f = &r->g->setting[i];
    SettingType kind = setting_row[i].kind;
    if (r->setting_line[i] && kind != SETTING_IS_WORDS)
        err(r->at, "%s is set twice", name);
    r->setting_line[i] = r->at.line;
    if (kind == SETTING_IS_WORDS) {
        f->word = ir_one_more(f->word, f->n);
        f->word[f->n++] = read_string(r);
        if (i == SETTING_flags)
            read_flag(r, f->word[f->n - 1]);
    } else if (kind == SETTING_IS_INT) {
        f->i = read_between(r, 0, INT64_MAX);
    } else if (kind != SETTING_IS_LINES) {
        f->text = read_string(r);
    } else {
        r->lines = f;
        r->text = (Str){0};
    }
    f->loc = read_loc(r);
    check_setting(r, i);
}

static void read_size(Reader *r)
{
    char *name = read_until(r, " ");
    for (const char *p = name; *p; p++)
        if (!(p > name ? isalnum((unsigned char)*p) : isupper((unsigned char)*p)) && *p != '_')
            err(r->at, "size %s: must be a capital letter, then letters and digits", name);
    if (ir_size(r->g, name))
        err(r->at, "size %s appears twice", name);
    int64_t n = read_between(r, 1, INT32_MAX);
    ir_size_add(r->g, name, n, read_quoted(r));
    end_line(r);
}

/* Used in scripts. */
static void check_machines(const Reader *r)
{
    const char *lines = r->g->setting[SETTING_cluster].text, *fault = cluster_fault(lines);
    const Loc at = {r->at.file, r->setting_line[SETTING_cluster]};
    if (fault)
        err(at, "%s", fault);
    const int64_t nodes = lines ? atoll(cluster_value(lines, "nodes", 0)) : 1;
    if (r->g->ranks % nodes)
        err(at, "cluster: %" PRId64 " ranks cannot be divided evenly among %" PRId64 " nodes",
            r->g->ranks, nodes);
}

static void check_whole(const Reader *r)
{
    const char *checkpoint = r->g->setting[SETTING_checkpoint].text;
    check_machines(r);
    if (checkpoint && strcmp(checkpoint, "async\n"))
        err((Loc){r->at.file, r->setting_line[SETTING_checkpoint]}, "checkpoint: must be async");
    for (int i = 0; i < NSETTINGS; i++)
        if (!r->setting_line[i] && setting_row[i].kind != SETTING_IS_WORDS &&
            i != SETTING_adapter_json && i != SETTING_cluster && i != SETTING_order &&
            i != SETTING_other_fields && i != SETTING_checkpoint)
            err(r->at, "no line `set %s`", setting_row[i].name);
    int setting;
    char *model = model_fault(r->g, &setting);
    if (model)
        err((Loc){r->at.file, r->setting_line[setting]}, "%s", model);
    for (int i = 0; i < r->nlines; i++) {
        char *fault = size_fault_value(r->g, r->g->values[i]);
        if (fault)
            err((Loc){r->at.file, r->value_line[i]}, "%s", fault);
    }
}

static void read_head(Reader *r)
{
    Graph *g = r->g;
    if (accept(r, "arena")) {
        g->arena_bytes = read_int(r);
        expect(r, "bound");
        g->lower_bound = read_int(r);
        expect(r, "persistent");
        g->persistent_bytes = read_int(r);
        expect(r, "placed");
        skip_spaces(r);
        g->plan_method = text_copy(r->p);
        return;
    }
    if (g->room)
        err(r->at, "the first line appears twice");
    g->room = read_until(r, " ");
    expect(r, "objective");
    g->objective = read_until(r, " ");
    if (!is_choice(field_choices(F_objective), g->objective))
        err(r->at, "%s is not an objective", g->objective);
    expect(r, "family");
    g->family = read_until(r, " ");
    if (!is_choice(field_choices(F_model_family), g->family))
        err(r->at, "%s is not a family", g->family);
    expect(r, "target");
    char *target = read_until(r, " ");
    g->target = target_find(target);
    if (!g->target)
        err(r->at, "%s is not a target", target);
    expect(r, "ranks");
    g->ranks = read_between(r, 1, INT32_MAX);
    end_line(r);
}

static void read_line(Reader *r)
{
    if (*r->p == '|') {
        r->p++;
        return read_lines(r);
    }
    end_lines(r);
    if (accept(r, "#"))
        return read_head(r);
    if (!r->g->room)
        err(r->at, "the first line of a room's text is missing: # ROOM  objective NAME  family "
                   "NAME  target NAME  "
                   "ranks N");
    if (accept(r, "set"))
        return read_setting(r);
    if (accept(r, "size"))
        return read_size(r);
    for (int kind = VK_PARAM; kind <= VK_TEMP; kind++)
        if (accept(r, value_kind_name[kind]))
            return read_value(r, (ValueKind)kind);
    if (accept(r, "hf"))
        return read_piece(r);
    if (accept(r, "schedule"))
        return keep_for_later(r);
    if (accept(r, "program"))
        read_program(r);
    else if (!r->program)
        err(r->at, "op or repeat before any program");
    else if (accept(r, "repeat"))
        read_repeat(r);
    else if (accept(r, "end")) {
        if (!r->region)
            err(r->at, "end without repeat");
        r->region = 0;
        end_line(r);
    } else if (accept(r, "--")) {
        char *stage = read_until(r, "\n");
        r->stage = strcmp(stage, "none") ? stage : NULL;
    } else if (accept(r, "@g"))
        read_group(r);
    else
        read_op(r);
}

Graph *ir_parse(const char *text, const char *file)
{
    Graph *g = arena_new(sizeof *g);
    Reader r = {.g = g, .at = {file, 0}, .group = -1};
    while (*text) {
        const char *end = strchrnul(text, '\n');
        char *line = text_print("%.*s", (int)(end - text), text);
        r.p = line;
        r.at.line++;
        if (*line)
            read_line(&r);
        text = *end ? end + 1 : end;
    }
    end_lines(&r);
    end_program(&r);
    read_schedules(&r);
    if (!g->room || (!strcmp(g->room, "plan") && !g->plan_method))
        err(r.at, "no head line");
    check_whole(&r);
    return g;
}
