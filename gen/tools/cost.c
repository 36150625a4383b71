/* cost.c -- `gen diff --base FILE RECIPE`: the cost of a recipe change.
 *
 * In:    an earlier `gen plan --json` of the recipe, or none, and the current recipe.
 * Out:   a sentence and a Markdown table, or JSON; exit code 0 or 1, by --allow.
 * Keeps: both sides are objects of the same kind, so their numbers are comparable. */
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

#include "runtime/files/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 28 };                     /* maximum size of a plan, bytes */

static const cJSON *number(const cJSON *o, const char *key)
{
    const cJSON *n = json_get(o, key);
    return cJSON_IsNumber(n) ? n : NULL;
}

/* FLOP of a step of all ranks: of the first schedule that updates parameters. -1: the plan does not
 * say. */
static double step_flop(const cJSON *o)
{
    const cJSON *s, *ranks = number(o, "ranks");
    cJSON_ArrayForEach(s, json_get(o, "schedules"))
        if (ranks && cJSON_IsTrue(json_get(s, "updates")) && number(s, "flop"))
            return number(s, "flop")->valuedouble * ranks->valuedouble;
    return -1;
}

/* Bytes that a rank sends in a step, within its node and to others, -1 as above. */
static double step_sent_bytes(const cJSON *o)
{
    const cJSON *s, *sent, *each;
    cJSON_ArrayForEach(s, json_get(o, "schedules")) {
        if (!cJSON_IsTrue(json_get(s, "updates")) || !(sent = json_get(s, "sent_bytes")))
            continue;
        double bytes = 0;
        cJSON_ArrayForEach(each, sent)
            for (int i = 0; i < 2; i++) {
                const cJSON *n = number(each, i ? "between_nodes" : "within_node");
                bytes += n ? n->valuedouble : 0;
            }
        return bytes;
    }
    return -1;
}

static const struct {
    const char *key, *label;
} number_row[] = {{"device_bytes", "bytes of a rank"},
                  {"step_flop", "FLOP of a step, all ranks"},
                  {"step_sent_bytes", "bytes that a rank sends in a step"},
                  {"flop", "FLOP of a run"},
                  {"parameters", "parameters"},
                  {"parameters_trained", "parameters trained"}};
enum { BYTES, STEP, SENT, RUN, PARAMETERS, TRAINED, NUMBERS };

/* -1: none. */
static double value_of(const cJSON *o, int row)
{
    const cJSON *n = number(o, number_row[row].key);
    return row == STEP   ? step_flop(o)
           : row == SENT ? step_sent_bytes(o)
           : n           ? n->valuedouble
                         : -1;
}

/* Reads the stored plan; ends the program if it is not one of this recipe. */
static cJSON *read_base(const char *file, const char *name)
{
    size_t n;
    char *text = file_text(file, MOST, &n), *error = NULL;
    if (!text)
        err((Loc){0},
            "diff: --base %s: cannot be read: %s; gen plan --json RECIPE prints such a file", file,
            strerror(errno));
    cJSON *o = json_parse(text, n, &error);
    if (!o)
        err((Loc){file, 0}, "%s; give the output of gen plan --json RECIPE", error);
    const char *command = cJSON_GetStringValue(json_get(o, "command"));
    const char *of = cJSON_GetStringValue(json_get(o, "name"));
    const cJSON *failed = json_get(json_get(o, "error"), "message");
    if (failed)
        err((Loc){file, 0}, "is not a plan but an error: %s", cJSON_GetStringValue(failed));
    if (!command || strcmp(command, "plan") || !of)
        err((Loc){file, 0}, "must be the output of gen plan --json RECIPE, found %s%s",
            command ? "that of gen " : "other JSON",
            command ? command : "");
    if (strcmp(of, name))
        err((Loc){file, 0},
            "is the plan of %s, the recipe is called %s; gen diff A B compares two recipes", of,
            name);
    bool rank = value_of(o, BYTES) >= 0 && value_of(o, STEP) >= 0 && value_of(o, TRAINED) >= 0;
    if (value_of(o, PARAMETERS) < 0 || (!rank && value_of(o, RUN) < 0))
        err((Loc){file, 0}, "lacks numbers of a plan: made by another version of gen? Run gen plan "
                            "--json again on the base recipe");
    return o;
}

static char *grouped(double x)
{
    return x < 0 ? "-" : x < 9e15 ? text_grouped((int64_t)x) : text_print("%.6g", x);
}

/* Plan of the recipe, parsed from its own text, so that both sides have the same types. */
static cJSON *read_present(const Graph *g, Config *c)
{
    char *text = cJSON_PrintUnformatted(g ? plan_object(g, c) : standalone_object(c)),
         *error = NULL;
    cJSON *o = text ? json_parse(text, strlen(text), &error) : NULL;
    if (!o || value_of(o, PARAMETERS) < 0)
        bug("the plan of %s does not read back: %s", c->name, error ? error : "no parameters");
    return o;
}

/* "+37,363,712 (+35.6 MiB)" */
static char *change_of(double a, double b, bool bytes)
{
    if (a < 0 || b < 0)
        return "-";
    const double by = b > a ? b - a : a - b;
    const char *sign = b > a ? "+" : b < a ? "-" : "";
    return text_print("%s%s%s", sign, grouped(by),
                      bytes && by ? text_print(" (%s%s)", sign, text_bytes((int64_t)by)) : "");
}

/* a NULL: new recipe. */
static char *sentence(const cJSON *a, const cJSON *b, const char *name, bool same)
{
    const double x = a ? value_of(a, BYTES) : -1, y = value_of(b, BYTES);
    const char *now = y < 0 ? "" : text_print(": %s a rank", text_bytes((int64_t)y));
    if (!a)
        return text_print("%s is new%s", name, now);
    if (x >= 0 && y >= 0 && x != y)
        return text_print("this change %s %s on %s: %s a rank, was %s", y > x ? "costs" : "saves",
                          text_bytes((int64_t)(y > x ? y - x : x - y)), name,
                          text_bytes((int64_t)y), text_bytes((int64_t)x));
    if (same)
        return text_print("this change costs nothing on %s%s, as before", name, now);
    return text_print("this change costs no memory on %s%s; other numbers differ", name, now);
}

static void print_table(const cJSON *a, const cJSON *b, const char *name, FILE *to)
{
    fprintf(to, "\n| %s | base | now | change |\n|---|---:|---:|---:|\n", name);
    for (int i = 0; i < NUMBERS; i++) {
        const double x = a ? value_of(a, i) : -1, y = value_of(b, i);
        if (x >= 0 || y >= 0)
            fprintf(to, "| %s | %s | %s | %s |\n", number_row[i].label, grouped(x), grouped(y),
                    change_of(x, y, i == BYTES || i == SENT));
    }
}

static void print_answer(const cJSON *a, const cJSON *b, const char *name, const char *say,
                         bool same, bool within)
{
    cJSON *o = answer_new(), *list;
    answer_text(o, "name", name);
    answer_bool(o, "same", same);
    answer_bool(o, "allowed", within);
    answer_text(o, "sentence", say);
    list = answer_object(o, "numbers");
    for (int i = 0; i < NUMBERS; i++) {
        const double x = a ? value_of(a, i) : -1, y = value_of(b, i);
        if (x < 0 && y < 0)
            continue;
        cJSON *item = answer_object(list, number_row[i].key);
        x < 0 ? answer_text(item, "base", NULL) : answer_float(item, "base", x);
        y < 0 ? answer_text(item, "now", NULL) : answer_float(item, "now", y);
    }
    answer_print(o);
}

int cost_run(const Graph *g, Config *c, const char *file, const char *allow, FILE *to)
{
    int64_t most = !allow || !strcmp(allow, "any") ? INT64_MAX
                   : !strcmp(allow, "0")           ? 0
                                                   : bytes_of("diff: --allow", allow);
    const cJSON *a = strcmp(file, "none") ? read_base(file, c->name) : NULL,
                *b = read_present(g, c);
    const double x = a ? value_of(a, BYTES) : -1, y = value_of(b, BYTES);
    bool same = a != NULL;
    for (int i = 0; i < NUMBERS && same; i++)        /* plans of earlier releases lack SENT */
        same = value_of(a, i) == value_of(b, i) || (i == SENT && value_of(a, i) < 0);
    const bool within = x < 0 || y < 0 || most == INT64_MAX || y - x <= (double)most;
    const char *say = sentence(a, b, c->name, same);
    if (answer_wanted())
        print_answer(a, b, c->name, say, same, within);
    else {
        fprintf(to, "%s\n", say);
        print_table(a, b, c->name, to);
    }
    if (!within)
        fprintf(stderr, "gen: diff: %s: a rank needs %s more than the base, --allow %s\n", c->name,
                text_bytes((int64_t)(y - x)), allow);
    return allow ? !within : !same;
}
