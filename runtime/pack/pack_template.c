/* pack_template.c -- writes a chat format as a Jinja template, for folders without one.
 *
 * Out:   a template with which transformers renders the text of pack_chat.c.
 * Keeps: the text of templates never changes: folders with one are recognised by its hash. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a text as a Jinja string. */
static void put_text(FILE *to, const char *text)
{
    putc('\'', to);
    for (const char *s = text ? text : ""; *s; s++)
        if (*s == '\n')
            fputs("\\n", to);
        else
            fprintf(to, "%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
    putc('\'', to);
}

static void put_output(FILE *to, const char *text)
{
    fputs("{{- ", to);
    put_text(to, text);
    fputs(" }}\n", to);
}

/* Writes a turn: opening, `inner` (or NULL), the value, close. */
static void put_turn(FILE *to, const ChatTurn *turn, const char *inner, const char *value)
{
    fputs("{{- ", to);
    put_text(to, turn->open);
    if (inner) {
        fputs(" + ", to);
        put_text(to, inner);
    }
    fprintf(to, " + %s%s + ", value, turn->trim != TRIM_NOT ? " | trim" : "");
    put_text(to, turn->close);
    fputs(" }}\n", to);
}

/* Sets `system` to a system message that comes first, else to the format's own, and `turns` to the
 * messages after it. */
static void put_system(FILE *to, const Chat *c)
{
    fputs("{%- if messages[0]['role'] == 'system' %}\n"
          "    {%- set system = messages[0]['content'] if messages[0]['content'] is string else "
          "messages[0]['content'] | map(attribute='text') | join('') %}\n"
          "    {%- set turns = messages[1:] %}\n{%- else %}\n    {%- set system = ", to);
    if (c->says)
        put_text(to, c->says);
    else
        fputs("none", to);
    fputs(" %}\n    {%- set turns = messages %}\n{%- endif %}\n", to);
    if (c->alternate && c->system_in == SYSTEM_NOWHERE)
        fprintf(to, "{%%- if system is not none %%}\n    {{- raise_exception('the chat format %s "
                    "has no place for a system message') }}\n{%%- endif %%}\n", c->name);
    if (c->begin)
        put_output(to, c->begin);
    if (c->system_in != SYSTEM_TURN)
        return;
    fputs("{%- if system is not none %}\n    ", to);
    put_turn(to, &c->system, c->preamble, "system");
    fputs("{%- endif %}\n", to);
}

/* Writes the user's turn, which may contain the system message. */
static void put_user(FILE *to, const Chat *c)
{
    const bool folds = c->system_in == SYSTEM_FIRST || c->system_in == SYSTEM_LAST;
    if (folds) {
        fprintf(to, "        {%%- if system is not none and loop.index0 == %s %%}\n"
                    "            {{- ",
                c->system_in == SYSTEM_FIRST ? "0" : "(turns | length - 1) // 2 * 2");
        put_text(to, c->user.open);
        fputs(" + (", to);
        put_text(to, c->system.open);
        fprintf(to, " + system%s + ", c->system.trim != TRIM_NOT ? " | trim" : "");
        put_text(to, c->system.close);
        fprintf(to, " + content%s)%s + ", c->user.trim == TRIM_CONTENT ? " | trim" : "",
                c->user.trim == TRIM_ALL ? " | trim" : "");
        put_text(to, c->user.close);
        fputs(" }}\n        {%- else %}\n    ", to);
    }
    fputs("        ", to);
    put_turn(to, &c->user, NULL, "content");
    if (folds)
        fputs("        {%- endif %}\n", to);
}

static void put_turns(FILE *to, const Chat *c)
{
    fputs("{%- for message in turns %}\n    {%- set content = message['content'] "
          "if message['content'] is string else "
          "message['content'] | map(attribute='text') | join('') %}\n", to);
    if (c->alternate)
        fprintf(to, "    {%%- if (message['role'] == 'user') != (loop.index0 %% 2 == 0) %%}\n"
                    "        {{- raise_exception('the chat format %s wants user and assistant in "
                    "turn, the user first') }}\n    {%%- endif %%}\n", c->name);
    fputs("    {%- if message['role'] == 'user' %}\n", to);
    put_user(to, c);
    fputs("    {%- elif message['role'] == 'assistant' %}\n        ", to);
    put_turn(to, &c->answer, c->lead, "content");
    if (!c->alternate) {
        fputs("    {%- elif message['role'] == 'system' %}\n        ", to);
        put_turn(to, &c->system, NULL, "content");
    }
    fputs("    {%- else %}\n        {{- raise_exception('the role ' + message['role'] + "
          "' has no place in ", to);
    fprintf(to, "the chat format %s') }}\n    {%%- endif %%}\n{%%- endfor %%}\n", c->name);
}

char *chat_template(const Chat *c)
{
    size_t n;
    char *text = NULL;
    if (c->thinks)
        return NULL;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        abort();
    fprintf(to, "{#- the chat format %s, written by diecast #}\n", c->name);
    put_system(to, c);
    put_turns(to, c);
    fputs("{%- if add_generation_prompt %}\n    ", to);
    put_output(to, c->answer.open);
    if (c->end) {
        fputs("{%- else %}\n    ", to);
        put_output(to, c->end);
    }
    fputs("{%- endif %}\n", to);
    fclose(to);
    return text;
}
