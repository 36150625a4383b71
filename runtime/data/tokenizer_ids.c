/* tokenizer_ids.c -- look-up of ids: of the model, added tokens, special tokens. */
#include "runtime/data/tokenizer_parts.h"

#include <string.h>

const Tokens *model_tokens(const Tokenizer *t)
{
    return t->unigram ? unigram_tokens(t->unigram) : wordpiece_tokens(t->words);
}

int model_id(const Tokenizer *t, const char *token)
{
    return t->bpe ? bpe_id(t->bpe, token) : tokens_id(model_tokens(t), token, strlen(token), false);
}

int model_count(const Tokenizer *t)
{
    return t->bpe ? bpe_count(t->bpe) : model_tokens(t)->n;
}

const char *model_text(const Tokenizer *t, int32_t id, size_t *n)
{
    return t->bpe ? bpe_bytes(t->bpe, id, n) : tokens_text(model_tokens(t), id, n);
}

const Added *added_of(const Tokenizer *t, int32_t id)
{
    for (int lo = 0, hi = t->nadded; lo < hi;) {
        int mid = lo + (hi - lo) / 2;
        if (t->added[mid].id == id)
            return &t->added[mid];
        if (t->added[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

int tokenizer_added(const Tokenizer *t, const char *content)
{
    for (int i = 0; i < t->nadded; i++)
        if (!strcmp(t->added[i].content, content))
            return t->added[i].id;
    return -1;
}

int tokenizer_size(const Tokenizer *t)
{
    return t->size;
}

int tokenizer_eos(const Tokenizer *t)
{
    return t->eos;
}

bool tokenizer_ends(const Tokenizer *t, int32_t id)
{
    bool ends = id == t->eos;
    for (int i = 0; i < (int)t->ends.n; i++)
        ends = ends || id == t->ends.id[i];
    return ends;
}

int tokenizer_bos(const Tokenizer *t)
{
    return t->bos;
}

int tokenizer_mask(const Tokenizer *t)
{
    return t->mask;
}

int tokenizer_pad(const Tokenizer *t)
{
    return t->pad;
}

int tokenizer_unknown(const Tokenizer *t)
{
    if (t->bytes)
        return -1;
    return t->bpe     ? bpe_unknown(t->bpe)
         : t->unigram ? unigram_unknown(t->unigram)
                      : wordpiece_unknown(t->words);
}

static bool ids_hold(const Ids *ids, int32_t id)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->id[i] == id)
            return true;
    return false;
}

bool tokenizer_special(const Tokenizer *t, int32_t id)
{
    if (id < 0)
        return false;
    if (t->bytes)
        return id == t->eos;
    const Added *a = added_of(t, id);
    return id != tokenizer_unknown(t) &&
           (id == t->bos || id == t->mask || id == t->pad || (a && a->special) ||
            tokenizer_ends(t, id) || ids_hold(&t->prefix, id) || ids_hold(&t->suffix, id));
}

const char *tokenizer_eos_text(const Tokenizer *t)
{
    const Added *a = t->eos_text ? added_of(t, t->eos) : NULL;
    const bool found = !a || (strlen(a->content) == a->nmatch &&
                              !memcmp(a->content, a->match, a->nmatch));
    return found ? t->eos_text : NULL;
}

const char *tokenizer_id(const Tokenizer *t)
{
    return t->id;
}

const int32_t *tokenizer_prefix(const Tokenizer *t, size_t *n)
{
    *n = t->prefix.n;
    return t->prefix.id;
}

const int32_t *tokenizer_suffix(const Tokenizer *t, size_t *n)
{
    *n = t->suffix.n;
    return t->suffix.id;
}
