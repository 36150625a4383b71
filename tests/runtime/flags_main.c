/* flags_main.c -- prints every flag as the command line and two recipe defaults leave it. */
#include "../../runtime/run/flags.h"
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const FlagDefault good[] = { { "lr", "3e-4" }, { "log_every", "7" }, { NULL, NULL } };
    static const FlagDefault bad[] = { { "resume", "last" }, { NULL, NULL } };
    static const FlagDefault none[] = { { NULL, NULL } };
    Flags f, again = { 0 };
    const char *which = getenv("DEFAULTS");
    flags_of(getenv("OBJECTIVE"));
    const char *words = getenv("MADE");
    const Made made = { words ? words : "recipes/x.lua", { getenv("BUILT") } };
    flags_parse(&f, &made, !which ? good : strcmp(which, "bad") == 0 ? bad : none, argc, argv);
    if (f.help)
        flags_help(stdout, "train", &f);
    for (int i = 0; !f.help && i < FLAG_COUNT; i++) {
        char *text = flags_text(&f, i);
        bool asked = f.given[i] || flags_sticky(i) || flags_on(&f, i);
        char *error = asked ? flags_set(&again, i, text) : NULL;
        if (asked && flags_repeats(i))
            flags_add(&again, i, text);
        char *copy = flags_text(asked ? &again : &f, i);
        printf("%s=%s%s%s\n", flags_name(i), text, f.given[i] ? " given" : "",
               error || strcmp(text, copy) ? " DOES NOT READ BACK" : "");
        free(copy);                  /* text stays: strings of `again` point into it */
    }
    return 0;
}
