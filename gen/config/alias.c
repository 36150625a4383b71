/* alias.c -- equivalents of other trainers' settings.
 *
 * In:    rows of runtime/files/aliases.def.
 * Out:   the field, flag or argument to write instead. */
#include "gen/config/config.h"
#include "gen/config/alias.h"

#include <string.h>

static const char *noted(const Alias *row)
{
    return *row->note ? text_print(" (%s)", row->note) : "";
}

const char *alias_typed(const Alias *row, const char *given)
{
    int flag = run_flag_find(row->ours);
    const char *value = given && !given[strcspn(given, " '\"\\")] && *given ? given : "VALUE";
    if (alias_needless(row, given))
        return text_print("leave it out; here it is %s%s", row->ours, noted(row));
    if (row->kind == ALIAS_FIELD || (row->kind == ALIAS_MEANS && flag < 0))
        return text_print("here it is the word %s=%s%s", row->ours, alias_value(row, given),
                          noted(row));
    if ((row->kind == ALIAS_FLAG || row->kind == ALIAS_MEANS) && run_flag[flag].recipe)
        return text_print("here it is the word run.%s=%s%s", row->ours,
                          row->kind == ALIAS_MEANS ? alias_value(row, given) : value,
                          noted(row));
    return alias_say(row);
}

/* Value in Lua syntax. */
static const char *in_lua(FieldType type, const char *value)
{
    Str s = {0};
    if (type != FT_STRING && type != FT_CHOICE && type != FT_LIST)
        return value;
    for (size_t n; *value; value += n + (value[n] == ',')) {
        n = type == FT_LIST ? strcspn(value, ",") : strlen(value);
        str_print(&s, "%s\"%.*s\"", s.n ? ", " : "", (int)n, value);
    }
    return type == FT_LIST ? text_print("{ %s }", s.text) : s.text;
}

const char *alias_written(const Alias *row, const char *given)
{
    const int field = field_find(row->ours);
    const char *value = alias_value(row, given);
    if (alias_needless(row, given))
        return text_print("leave it out; here it is %s%s", row->ours, noted(row));
    if (row->kind != ALIAS_MEANS || field < 0 || !strcmp(value, row->value))
        return alias_say(row);
    return text_print("here it is %s = %s%s", row->ours, in_lua(field_row[field].type, value),
                      noted(row));
}

const char *alias_say(const Alias *row)
{
    int flag = run_flag_find(row->ours);
    switch (row->kind) {
    case ALIAS_FLAG:
    case ALIAS_LINE:
    case ALIAS_MEANS:
    case ALIAS_FIELD:
        if (flag < 0)
            return text_print("here it is %s%s", row->ours, noted(row));
        return run_flag[flag].recipe
                   ? text_print("here it is run.%s%s", row->ours, noted(row))
                   : text_print("here it is the flag --%s of the training program%s", row->ours,
                                noted(row));
    case ALIAS_NONE:
        return text_print("not supported: %s", row->note);
    case ALIAS_ALWAYS:
        return text_print("%s: leave it out", row->note);
    default:
        return row->note;
    }
}
