/* pack_rules.c -- rules for raw data from the options: tokenizer, chat format, windows; and the
 * fingerprint of everything that determines the records. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

bool rules_windows(const Work *w)
{
    return w->rules.format == &pack_format[FORM_WINDOWS];
}

/* Checks the options for a tokenizer made from the data. words: the data are samples of words. */
static char *made_rules(Work *w, bool words)
{
    const char *name = w->o->tokenizer;
    if (!words && !strcmp(name, "words"))
        return format("--tokenizer words is for the formats imdb and corpus");
    if (words && strcmp(name, "words"))
        return format("--tokenizer %s has no words: the formats imdb and corpus need --tokenizer "
                      "words, or a file", name);
    if (w->o->chat)
        return format("--chat: a vocabulary of %s has no chat tokens", name);
    for (int i = 0; i < w->o->nfiles; i++)
        if (!strcmp(w->o->file[i], "-"))
            return format("--tokenizer %s reads its data twice, but standard input can be read "
                          "only once: write it to a file", name);
    return NULL;
}

/* How this program opens arrays of ids; NULL: none of its formats is made from them. */
static PreparedOpen *arrays_opener(const PackOptions *o)
{
    for (const FormatCode *const *at = o->formats; at && *at; at++)
        if ((*at)->open_arrays)
            return (*at)->open_arrays;
    return NULL;
}

/* Opens arrays of ids, and checks the options for them. */
static void open_prepared(Work *w)
{
    const PackOptions *o = w->o;
    PreparedOpen *const open = arrays_opener(o);
    Pack *p = &w->pack;
    char *error = NULL;
    int code = EXIT_CONFIG;
    if (o->nfiles > 1)
        error = format("%s has arrays of ids: give no other file with it", o->file[0]);
    else if (!open)
        code = EXIT_MISMATCH, error = format("%s has arrays of ids, which become rows of tokens to "
            "mask, but this program masks none: give texts or JSON rows", o->file[0]);
    else if (o->kind == KIND_PACKED || o->kind == KIND_PAIRS)
        error = format("%s has arrays of ids, which become rows, but the output is %s", o->file[0],
                       kind_name[o->kind]);
    else if (o->show)
        error = format("--show: %s has arrays of ids: use --show of the program that reads them",
                       o->file[0]);
    else if (vocabulary_made(o->tokenizer))
        error = format("--tokenizer %s needs texts, but %s has ids", o->tokenizer, o->file[0]);
    else if (o->skip_bad)
        error = format("--skip-bad: %s has arrays of ids, which are never left out", o->file[0]);
    code = error ? code : EXIT_DATA;
    error = error ? error : open(&w->prepared, o->file[0], o->tokenizer);
    if (!error && o->max_length && w->prepared->length > o->max_length)
        code = EXIT_MISMATCH, error = format("%s: sequence_length is %lld, must be at most %lld",
            o->file[0], (long long)w->prepared->length, (long long)o->max_length);
    if (!error && o->vocab && w->prepared->ids.size != o->vocab)
        code = EXIT_MISMATCH, error = format("%s: vocab_size %lld, the model has %lld rows: gen %s "
            "model.vocab=%lld, or gen pack --prepare with --vocab %lld", o->file[0],
            (long long)w->prepared->ids.size, (long long)o->vocab,
            o->recipe ? o->recipe : "RECIPE", (long long)w->prepared->ids.size,
            (long long)o->vocab);
    if (error) {
        pack_fail(p, code, (Location){0}, error);
        return;
    }
    w->rules.max_length = p->max_length = w->prepared->length;
    w->rules.format = &pack_format[FORM_WINDOWS];
    p->kind = KIND_ROWS;
    p->finds_targets = true;
}

static char *window_rules(const Work *w)
{
    const PackOptions *o = w->o;
    if (!rules_windows(w) && (o->stride || o->held_out || o->share > 0))
        return format("%s is for the format windows",
                      o->stride ? "--stride" : o->held_out ? "--split" : "--eval-share");
    if (rules_windows(w) && w->rules.max_length < 2)
        return format("windows of 1 token mask all of a text: use 2 or more (seq.max, "
                      "--max-length)");
    if (rules_windows(w) && w->rules.stride > w->rules.max_length)
        return format("--stride %lld skips tokens between windows of %lld tokens",
                      (long long)w->rules.stride, (long long)w->rules.max_length);
    if (rules_windows(w) && o->share > 0 && !o->held_out)
        return format("--eval-share needs --split tail or random");
    return NULL;
}

/* Calls begin() of the program's formats, before the first row. */
static void begin_formats(Work *w)
{
    const RecordCode *before = NULL;
    for (const FormatCode *const *at = w->rules.formats; at && *at; at++) {
        const RecordCode *code = (*at)->records;
        if (code && code->begin && code != before) {
            char *error = code->begin(&w->rules, w->o, w->tok);
            if (error)
                pack_fail(&w->pack, EXIT_CONFIG, (Location){0}, error);
            before = code;
        }
        if (w->o->kind >= KIND_PAIRS && pack_format[(*at)->form].kind == w->o->kind)
            w->pack.records = code;
    }
}

void rules_free(Rules *r)
{
    for (const FormatCode *const *at = r->formats; at && *at; at++)
        if ((*at)->records && (*at)->records->free_rules) {
            (*at)->records->free_rules(r->more);
            r->more = NULL;
        }
    free(r->no_chat), free(r->no_render);
    render_free(r->render);
}

/* True if the folder's own template renders all conversations. */
static bool rules_template(const PackOptions *o)
{
    return o->chat ? !strcmp(o->chat, CHAT_TEMPLATE) : o->variable && *o->variable;
}

/* Opens the folder's own chat template: for rows that the format by hand cannot render, or for all
 * if there is no such format, or with --chat template. --chat NAME means that format only. */
static void open_template(Work *w)
{
    Rules *r = &w->rules;
    const bool only = rules_template(w->o);
    if (only)
        free(r->no_chat), r->no_chat = NULL;
    char *error = w->o->chat && !only ? NULL : render_open(&r->render, w->o->tokenizer);
    if (only && !error && !r->render)
        error = format("the tokenizer's folder has no chat_template");
    if (only && !error && (error = render_set(r->render, w->o->variable))) {
        pack_fail(&w->pack, EXIT_CONFIG, (Location){0}, format("--template-var %s", error));
        free(error);
        error = NULL;
    }
    if (only) {
        r->no_chat = error;
        return;
    }
    r->no_render = error ? error
                 : r->render ? NULL
                 : format("tools, their calls and results need the model's own chat_template, %s",
                          w->o->chat ? "which --chat replaces: remove it"
                                     : "but the tokenizer's folder has none");
    if (r->no_chat && !w->o->chat && (r->render || error)) {
        free(r->no_chat);
        r->no_chat = error ? format("%s; a format that renders the same may be given with --chat "
                                    "NAME", error) : NULL;
    }
}

void rules_find(Work *w)
{
    const PackOptions *o = w->o;
    Pack *p = &w->pack;
    if (prepared_is(o->file[0])) {
        open_prepared(w);
        return;
    }
    w->rules.loss = o->loss;
    w->rules.max_length = o->max_length ? o->max_length : PACK_LENGTH;
    w->rules.min_words = o->min_words ? o->min_words : PACK_MIN_WORDS;
    w->rules.format = o->format ? format_find(o->format) : NULL;
    bool words = format_of_words(w->rules.format);
    bool made = vocabulary_made(o->tokenizer);
    w->rules.system = o->system ? o->system : PACK_SYSTEM;
    w->rules.stride = o->stride ? o->stride : w->rules.max_length / 2;
    w->rules.held_out = o->held_out;
    w->rules.objects = o->kind >= KIND_STEPS;
    w->rules.formats = o->formats;
    w->rules.share = o->share > 0 ? o->share : 0.1;
    w->rules.ignore = o->ignore;
    w->rules.nignore = o->nignore;
    w->rules.skip_bad = o->skip_bad;
    if (o->nignore > PACK_IGNORE_MAX) {
        pack_fail(p, EXIT_CONFIG, (Location){0},
                  format("--ignore-keys: takes at most %d keys", PACK_IGNORE_MAX));
        return;
    }
    char *error = window_rules(w);
    if (error) {
        pack_fail(p, EXIT_CONFIG, (Location){0}, error);
        return;
    }
    if (o->min_words && !words)
        error = format("--min-words is for the formats imdb and corpus");
    else if (o->words && strcmp(o->tokenizer, "words"))
        error = format("--vocab is for --tokenizer words");
    else
        error = made ? made_rules(w, words) : tokenizer_load(&w->tok, o->tokenizer);
    if (error)
        pack_fail(p, EXIT_CONFIG, (Location){0}, error);
    if (made && !error)
        w->rules.no_chat = format("a vocabulary of %s has no chat tokens, which messages need",
                                  o->tokenizer);
    if (error || made)
        return;
    if (tokenizer_eos(w->tok) < 0 && !(w->rules.format && w->rules.format->finds_targets))
        pack_fail(p, EXIT_CONFIG, (Location){o->tokenizer, 0},
                  format("no end-of-text token: put a tokenizer_config.json that names eos_token, "
                         "or a config.json with eos_token_id, next to it"));
    begin_formats(w);
    if (o->variable && *o->variable && o->chat && !rules_template(o))
        pack_fail(p, EXIT_CONFIG, (Location){0},
                  format("--template-var is for the folder's chat_template, not for --chat %s",
                         o->chat));
    if (!rules_template(o))
        w->rules.no_chat = chat_choose(&w->rules.chat, &w->why_chat, w->tok, o->tokenizer, o->chat);
    if (w->rules.no_chat && !o->chat && w->rules.has_turns &&
        chat_by_tokens(&w->rules.chat, &w->why_chat, w->tok)) {
        free(w->rules.no_chat);
        w->rules.no_chat = NULL;
    }
    open_template(w);
    if (w->rules.no_chat && (o->chat || rules_template(o)))
        pack_fail(p, EXIT_CONFIG, (Location){0},
                  format("%s: %s", o->chat ? "--chat" : "--template-var", w->rules.no_chat));
}

/* Takes more_rules, malloc'ed. */
static void hash_rules(const Work *w, const char *bytes, const char *files, char *more_rules,
                       char hex[SHA256_HEX])
{
    const Rules *r = &w->rules;
    bool made = vocabulary_made(w->o->tokenizer);       /* the data and rules determine it */
    char *text = format("records %d %s %s %s %lld %s %lld %lld %s %s %s", PACK_VERSION, bytes,
                        files, w->prepared ? w->prepared->ids.id
                        : made      ? w->o->tokenizer : tokenizer_id(w->tok),
                        (long long)(w->o->words ? w->o->words : PACK_WORDS),
                        kind_name[w->pack.kind], (long long)r->max_length,
                        (long long)r->min_words, loss_name[r->loss],
                        r->chat ? r->chat->name : "", r->format ? r->format->name : "");
    const RecordCode *records = w->pack.records;
    char *format_words = records && records->fingerprint ? records->fingerprint(r)
                                                         : format("%s", "");
    char *limit = w->o->most ? format(" first %lld", (long long)w->o->most) : format("%s", "");
    char *more = !rules_windows(w) ? format("%s", "")
               : format(" %lld %s %g", (long long)r->stride, held_out_name[r->held_out], r->share);
    Sha256 h;
    sha256_begin(&h);
    sha256_add(&h, text, strlen(text));
    sha256_add(&h, more, strlen(more));
    sha256_add(&h, format_words, strlen(format_words));
    sha256_add(&h, limit, strlen(limit));
    sha256_add(&h, more_rules, strlen(more_rules));
    free(more), free(limit), free(format_words), free(more_rules);
    sha256_text(&h, hex);
    free(text);
}

/* Returns " NAME a b" of the ignored keys with a bit in `which`; malloc'ed; "": none. */
static char *keys_named(const Rules *r, const char *name, uint64_t which)
{
    char *all = format("%s%s", which ? " " : "", which ? name : "");
    for (int i = 0; i < r->nignore; i++) {
        const bool is = which >> i & 1;
        char *longer = format("%s%s%s", all, is ? " " : "", is ? r->ignore[i] : "");
        free(all);
        all = longer;
    }
    return all;
}

/* Options that earlier releases lacked change the fingerprint only if they change tokens. */
void rules_fingerprint(const Work *w, const char *bytes, const char *files, char hex[SHA256_HEX])
{
    char *without = keys_named(&w->rules, "without", w->pack.unread),
         *skipped = pack_skipped(&w->pack);
    char *more = format("%s%s%s%s%s%s%s", w->pack.nturns ? " turns" : "",
                        w->pack.njoined ? " joined" : "", without,
                        *skipped ? " malformed " : "", skipped,
                        w->pack.nrendered ? " template " : "",
                        w->pack.nrendered ? render_id(w->rules.render) : "");
    free(without), free(skipped);
    hash_rules(w, bytes, files, more, hex);
}

void rules_name(const Work *w, const char *bytes, const char *files, bool rows,
                char name[SHA256_HEX])
{
    /* rows that were packed before their keys were checked are packed again */
    char *ignored = keys_named(&w->rules, "without", ~UINT64_C(0));
    char *most = !w->rules.skip_bad ? format("%s", "")
               : format(" skip-bad %lld", (long long)w->rules.skip_bad);
    const bool renders = rows && w->rules.render;
    hash_rules(w, bytes, files,
               format("%s%s%s%s%s", rows ? " keys" : "", rows ? ignored : "", most,
                      renders ? " template " : "", renders ? render_id(w->rules.render) : ""),
               name);
    snprintf(name + PACK_NAME, SHA256_HEX - PACK_NAME, "%s", rows ? PACK_ROWS : "");
    free(ignored), free(most);
}
