/* kept.c -- words of memory.keep. */
#include "gen/config/kept.h"
#include "gen/util.h"

#include <string.h>

typedef struct {
    const char *word, *values;
} Kept;

static const Kept kept_row[] = {
#define KEPT(word, values, doc) {#word, values},
#include "gen/config/kept.def"
#undef KEPT
};
enum { ROWS = sizeof kept_row / sizeof *kept_row };

/* True if the list has that name, of n characters. */
static bool lists(const char *list, const char *name, size_t n)
{
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

const char *kept_word(const char *name)
{
    const char *base = text_print("%.*s", (int)strcspn(name, "."), name);
    for (int i = 0; i < ROWS; i++)
        if (lists(kept_row[i].values, base, strlen(base)))
            return kept_row[i].word;
    return NULL;
}

int kept_words(const char *word[KEPT_WORDS])
{
    for (int i = 0; i < ROWS; i++)
        word[i] = kept_row[i].word;
    return ROWS;
}

