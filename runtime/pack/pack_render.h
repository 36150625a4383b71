/* pack_render.h -- a conversation rendered by a chat_template: shared by pack_render_template.c
 * (the template), pack_render_targets.c (which tokens are targets) and pack_render.c (messages of a
 * row to text). */
#ifndef DIECAST_PACK_RENDER_H
#define DIECAST_PACK_RENDER_H

#include "runtime/jinja/jinja.h"
#include "runtime/pack/pack.h"

enum { RENDER_ENDS = 4 };

struct ChatTemplate {
    JinjaTemplate *jinja;
    char *text, *from;           /* its source, and where it is */
    char id[SHA256_HEX];         /* of all that determines its text, but the messages */
    cJSON *tokens;               /* {"bos_token": "<s>", ...} */
    cJSON *variables, *given;    /* set by render_set(): values, and as texts */
    int32_t end[RENDER_ENDS];    /* (nends) tokens that end an answer, by render_find_ends() */
    int nends;
};

/* A message. */
typedef struct {
    const char *role;
    ChatTarget target;
    bool hidden;                 /* by weight or train */
    const cJSON *from;           /* as in the row */
    const cJSON *masked;         /* spans of its content, or NULL */
} Turn;

typedef struct {
    const ChatTemplate *t;
    cJSON *messages, *tools;     /* as the template reads them; tools NULL: none */
    Turn *turn;                  /* (n) */
    int n;
    bool prompt;                 /* all of them ask for an answer */
    JinjaText text;              /* of all messages */
} RenderedTalk;

/* pack_render_template.c: renders the first n messages; prompt: with the beginning of an answer. */
char *talk_render(const RenderedTalk *talk, int n, bool prompt, JinjaText *to);
/* pack_render_targets.c: sets the targets of the ids of talk->text, which begin at `begin`. */
char *talk_targets(const RenderedTalk *talk, const Rules *rules, const Tokenizer *tok, Encoded *e,
                   size_t begin, RowOut *row);

#endif
