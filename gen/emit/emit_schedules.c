/* emit_schedules.c -- the functions step_X() of step.c: the programs of each schedule in order, and
 * the results that the host reads.
 *
 * In:    the graph after plan, backends.def.   Out: C text. */
#include "gen/emit/emit.h"

#include <inttypes.h>
#include <string.h>

/* Returns the bytes of a whole value. */
static char *size_text(const Value *v)
{
    const char *name = c_name(v->name);
    if (v->slots > 1)
        return text_print("sizeof *%s * %s_slots * %s_stride", name, name, name);
    return value_elements(v) == 1
               ? text_print("sizeof *%s", name)
               : text_print("%s * sizeof *%s", dim_product(v->dim, v->rank), name);
}

static void print_turns(Str *s, const Graph *g, const Item *item, const char *stream)
{
    bool watched = g->ranks > 1 && emit_backend(g)->watched;
    const char *name = item->program->name;
    if (item->times == 1)
        str_print(s, "    run_%s(%s);\n", name, stream);
    else
        str_print(s,
                  "    for (int micro = 0; micro < %s; micro++)%s\n"
                  "        run_%s(micro%s);\n%s",
                  item->times == emit_micros(g) ? "MICROS" : integer(item->times),
                  watched ? " {" : "", name, comma(stream),
                  watched ? "        comm_advance();\n    }\n" : "");
}

bool schedule_communicates(const Schedule *c)
{
    for (int i = 0; i < c->nitems; i++)
        if (c->item[i].program && program_communicates(c->item[i].program))
            return true;
    return false;
}

/* True if the schedule updates parameters: the training loop runs it. */
static bool trains(const Schedule *c)
{
    for (int i = 0; i < c->nitems; i++)
        if (c->item[i].program && program_updates(c->item[i].program))
            return true;
    return false;
}

bool emit_counts(const Graph *g)
{
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *c = g->schedules[i];
        if (!schedule_at_start(c) && schedule_communicates(c) && !trains(c))
            return true;
    }
    return false;
}

/* Returns a line of backends.def filled for a result. */
static char *result_line(const Graph *g, const char *line, const Value *v, const char *stream)
{
    const char *name = c_name(v->name);
    Hole holes[] = {{"VALUE", name, false}, {"TYPE", c_type(v->dtype), false},
                    {"FIELD", schedule_clears(g, v) ? text_print("%s[0]", name) : name, false},
                    {"BYTES", size_text(v), false}, {"STREAM", stream, false}};
    return template_line(line, holes, 5);
}

char *emit_calls(const Graph *g, const Schedule *c, const char *stream)
{
    Str s = {0};
    for (int i = 0; i < c->nitems; i++)
        if (c->item[i].program)
            print_turns(&s, g, &c->item[i], stream);
        else
            str_print(&s, "    clear(%s, %s%s);\n", c_name(c->item[i].clears->name),
                      size_text(c->item[i].clears), comma(stream));
    for (int i = 0; *emit_backend(g)->fetch && i < c->nresults; i++)
        str_print(&s, "    %s\n", result_line(g, emit_backend(g)->fetch, c->result[i], stream));
    /* a collective itself reports progress to the hang detector */
    if (g->ranks > 1 && emit_backend(g)->watched && !schedule_at_start(c) &&
        !schedule_communicates(c))
        str_print(&s, "    comm_advance();\n");
    return s.text;
}

/* Sets *list to the results that the host reads, each once, in the order of the schedules. Returns
 * their number. */
static int results(const Graph *g, const Value **list)
{
    int n = 0;
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->schedules[i]->nresults; k++) {
            int known = 0;
            while (known < n && list[known] != g->schedules[i]->result[k])
                known++;
            list[known] = g->schedules[i]->result[k];
            n += known == n;
        }
    return n;
}

char *emit_results(const Graph *g)
{
    const Value **list = arena_new(sizeof *list * (size_t)g->nvalues);
    int n = results(g, list);
    Str s = {0};
    for (int i = 0; i < n; i++)
        str_print(&s, "    %s\n", result_line(g, emit_backend(g)->result, list[i], ""));
    Str micros = {0};
    for (int i = 0; i < n; i++)
        if (list[i]->slots > 1)
            str_print(&micros, "        io.%s[k] = io.%s[0] + k * %s_stride;\n",
                      c_name(list[i]->name), c_name(list[i]->name), c_name(list[i]->name));
    if (micros.n)
        str_print(&s, "    for (int k = 1; k < MICROS; k++) {\n%s    }\n", micros.text);
    return s.text;
}

char *emit_result_fields(const Graph *g)
{
    const Value **list = arena_new(sizeof *list * (size_t)g->nvalues);
    int n = results(g, list);
    Str s = {0};
    for (int i = 0; i < n; i++) {
        str_print(&s, "    %-29s// (",
                  text_print("%s *%s%s;", c_type(list[i]->dtype), c_name(list[i]->name),
                             schedule_clears(g, list[i]) ? "[MICROS]" : ""));
        for (int d = 0; d < list[i]->rank; d++)
            str_print(&s, "%s%s", d ? ", " : "", list[i]->dim[d].sym);
        const char *before = ") of ";
        for (int k = 0; k < g->nschedules; k++)
            for (int r = 0; r < g->schedules[k]->nresults; r++)
                if (g->schedules[k]->result[r] == list[i]) {
                    str_print(&s, "%sstep_%s()", before, g->schedules[k]->name);
                    before = ", ";
                }
        str_print(&s, "\n");
    }
    return s.text;
}

char *emit_prototypes(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nschedules; i++)
        if (!schedule_at_start(g->schedules[i]))
            str_print(&s, "%-33s// %s\n", text_print("void step_%s(void);", g->schedules[i]->name),
                      text_comment(g->schedules[i]->about));
    return s.text;
}

char *emit_collectives(const Graph *g)
{
    Str s = {0};
    str_print(&s, "/* Collective");
    for (int i = 0, n = 0; i < g->nschedules; i++)
        if (!schedule_at_start(g->schedules[i]) && schedule_communicates(g->schedules[i]))
            str_print(&s, "%s %s", n++ ? "," : ":", g->schedules[i]->name);
    str_print(&s, ".\n");
    return s.text;
}
