/* target.c -- the rows of targets.def and cards.def as tables. */
#include "gen/config/target.h"

#include <ctype.h>
#include <string.h>

#define GIB(x) ((int64_t)((x) * 1073741824.0))
#define TARGET(name, backend, about, memory, reserve, align, fp32, bf16, cflags, ...) \
    {#name, backend, about, GIB(memory), GIB(reserve), align, fp32, bf16, cflags, __VA_ARGS__},
static const Target row[] = {
#include "gen/config/targets.def"
};

static const Backend backend[] = {
#define BACKEND(name, bandwidth, link, start, meet) {#name, bandwidth, link, start, meet},
#include "gen/config/targets.def"
};

static const Card card[] = {
#define CARD(name, target, memory, about, fp32, bf16, bandwidth, link) \
    {#name,       #target,     GIB(memory),     memory,    about, \
     fp32 * 1e12, bf16 * 1e12, bandwidth * 1e9, link * 1e9},
#include "gen/config/cards.def"
};

int target_count(void)
{
    return (int)(sizeof row / sizeof *row);
}

const Target *target_row(int i)
{
    return &row[i];
}

const Target *target_find(const char *name)
{
    for (int i = 0; i < target_count(); i++)
        if (!strcmp(row[i].name, name))
            return &row[i];
    return NULL;
}

const Backend *target_backend(const Target *t)
{
    const Backend *b = backend;
    while (strcmp(b->name, t->backend))
        b++;
    return b;
}

int card_count(void)
{
    return (int)(sizeof card / sizeof *card);
}

const Card *card_row(int i)
{
    return &card[i];
}

/* Lower-case letters and digits: "RTX 4090" is "rtx4090". */
static char *bare(const char *name)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (const char *p = name; *p; p++)
        if (isalnum((unsigned char)*p))
            str_print(&s, "%c", tolower((unsigned char)*p));
    return s.text;
}

const Card *card_near(const char *name)
{
    const char *all[64], *word = bare(name), *near;
    const Card *found = NULL;
    const int n = card_count();
    if (n > (int)(sizeof all / sizeof *all))
        bug("more cards than there is room for");
    for (int i = 0; i < n; i++)
        all[i] = card[i].name;
    for (int i = 0; i < n; i++)  /* "A100-SXM4-80GB"; the longest name, h100nvl before h100 */
        if (strstr(word, bare(card[i].name)) &&
            (!found || strlen(card[i].name) > strlen(found->name)))
            found = &card[i];
    for (int i = 0; i < n && strlen(word) > 1 && !found; i++)        /* "4090" */
        if (strstr(bare(card[i].name), word))
            found = &card[i];
    for (int i = 0; i < n && strlen(word) > 3 && !found; i++)        /* "DGX Spark" */
        if (strstr(bare(card[i].about), word))
            found = &card[i];
    if (!found && (near = text_nearest(name, all, n)))
        found = card_find(near);
    return found;
}

const Card *card_find(const char *name)
{
    for (int i = 0; i < card_count(); i++)
        if (!strcmp(bare(card[i].name), bare(name)))
            return &card[i];
    return NULL;
}
