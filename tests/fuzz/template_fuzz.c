// link: jinja_* json base names -lcjson -lutf8proc -lm
/* template_fuzz.c -- a hostile chat template: it is refused with a line, or renders conversations within its
 * limits, each time the same.
 *
 * In:    the template. The conversations are fixed: plain, with tools, calls and results, parts, numbers. */
#define _GNU_SOURCE
#include "../../runtime/jinja/jinja.h"

#include "../../runtime/files/json.h"
#include "../../runtime/files/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(x)                                                              \
    do {                                                                     \
        if (!(x)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);          \
            abort();                                                         \
        }                                                                    \
    } while (0)

static const char *const rows[] = {
    "{\"messages\":[]}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\n \\u00e9\\ud83d\\ude00'\\\"\"},"
    "{\"role\":\"assistant\",\"content\":\"b\"}],\"tools\":null}",
    "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"S\"}]},"
    "{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"reasoning_content\":\"r\",\"tool_calls\":["
    "{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
    "{\"x\":1,\"y\":-2.5e-7,\"z\":[true,null,123456789012345678901234567890,{}]}}},"
    "{\"id\":\"call00002\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"content\":\"<tool_response>x</tool_response>\"},"
    "{\"role\":\"assistant\",\"content\":\"<think>t</think>done\"}],\"tools\":[{\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"]}}}],\"enable_thinking\":true}",
};
enum { ROWS = sizeof rows / sizeof *rows, STEPS = 1 << 18 };

static void mark_strings(cJSON *v)
{
    for (; v; v = v->next) {
        v->type |= cJSON_IsString(v) && v->string && !strcmp(v->string, "arguments") ? JINJA_ENCODED : 0;
        mark_strings(v->child);
    }
}

static void render(const JinjaTemplate *t, int which, bool prompt)
{
    char *why;
    cJSON *row = json_parse(rows[which], strlen(rows[which]), &why),
          yes = {.type = prompt ? cJSON_True : cJSON_False},
          bos = {.type = cJSON_String, .valuestring = "<s>"};
    JinjaVariable v[8] = {{"add_generation_prompt", &yes}, {"bos_token", &bos}, {"eos_token", &bos}};
    int n = 3;
    WANT(row);
    mark_strings(row->child);
    for (cJSON *m = row->child; m; m = m->next)
        v[n++] = (JinjaVariable){m->string, m};
    JinjaText text[2];
    const JinjaInput in = {.variable = v, .n = n, .items = "messages", .steps = STEPS};
    char *error[2];
    for (int i = 0; i < 2; i++) {
        error[i] = jinja_render(t, &in, &text[i]);
        WANT(!error[i] == !!text[i].text);
        WANT(!error[i] || (!strncmp(error[i], "line ", 5) && error[i][5] > '0' && error[i][5] <= '9'));
        if (error[i])
            continue;
        WANT(text[i].n == strlen(text[i].text) && utf8_check(text[i].text, text[i].n) == text[i].n);
        WANT(text[i].n <= STEPS * 64);
        size_t at = 0;
        for (int k = 0; k < text[i].nspans; k++) {
            const JinjaSpan *s = &text[i].span[k];
            WANT(s->begin >= at && s->end >= s->begin && s->end <= text[i].n);
            WANT(s->item >= -1 && s->item < cJSON_GetArraySize(json_get(row, "messages")));
            at = s->end;
        }
    }
    WANT(!error[0] == !error[1] && (!error[0] || !strcmp(error[0], error[1])));
    WANT(error[0] || (text[0].n == text[1].n && !memcmp(text[0].text, text[1].text, text[0].n)));
    for (int i = 0; i < 2; i++)
        jinja_text_free(&text[i]), free(error[i]);
    cJSON_Delete(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size)
{
    JinjaTemplate *t = NULL;
    char *error = jinja_parse(&t, (const char *)in, size);
    WANT(!error == !!t);
    WANT(!error || !strncmp(error, "line ", 5));
    for (int i = 0; t && i < 2 * ROWS; i++)
        render(t, i / 2, i % 2);
    if (t)
        jinja_free(t);
    free(error);
    return 0;
}
