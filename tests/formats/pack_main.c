/* pack_main.c -- gen pack on its own, so that the test runs it with sanitizers and before gen is
 * built; with one name of chats.def alone, its template; `prompts TOKENIZER ROWS`: of each row the
 * ids that ask for its last answer by the folder's chat_template, "-" where it is refused. */
#define _GNU_SOURCE
#include "runtime/files/json.h"
#include "runtime/pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pack_main(int argc, char **argv);

/* The messages before the last answer. */
static cJSON *asking(const cJSON *row)
{
    cJSON *messages = cJSON_Duplicate(json_get(row, "messages"), true);
    int n = cJSON_GetArraySize(messages);
    while (n-- > 0) {
        const cJSON *role = json_get(cJSON_GetArrayItem(messages, n), "role");
        const bool answer = cJSON_IsString(role) && !strcmp(role->valuestring, "assistant");
        cJSON_DeleteItemFromArray(messages, n);
        if (answer)
            return messages;
    }
    return messages;
}

static int prompts(const char *tokenizer, const char *path)
{
    Tokenizer *tok;
    ChatTemplate *t;
    char *error = tokenizer_load(&tok, tokenizer), *line = NULL;
    size_t cap = 0;
    error = error ? error : render_open(&t, tokenizer);
    FILE *rows = error ? NULL : fopen(path, "r");
    if (!rows)
        return fprintf(stderr, "%s\n", error ? error : path), 1;
    for (ssize_t n; (n = getline(&line, &cap, rows)) > 0;) {
        Encoded e = {0};
        cJSON *row = json_parse(line, (size_t)n, &error), *messages = asking(row);
        error = render_prompt(t, tok, messages, json_get(row, "tools"), &e);
        for (size_t i = 0; i < e.n; i++)
            printf("%s%d", i ? " " : "", e.id[i]);
        puts(error ? "-" : "");
        if (error)
            fprintf(stderr, "%s\n", error);
        free(error);
        encoded_free(&e);
        cJSON_Delete(messages), cJSON_Delete(row);
    }
    free(line);
    fclose(rows);
    render_free(t);
    tokenizer_free(tok);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "prompts"))
        return prompts(argv[2], argv[3]);
    const Chat *c;
    for (int i = 0, known; argc == 2 && (c = chat_row(i, &known)); i++)
        if (!strcmp(argv[1], c->name)) {
            char *text = chat_template(c);
            fputs(text ? text : "", stdout);
            free(text);
            return 0;
        }
    return pack_main(argc, argv);
}
