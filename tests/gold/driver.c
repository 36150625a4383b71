/* driver.c -- the recipe and config rooms alone.
 *
 * driver config RECIPE [FIELD=VALUE ...]   the Config as text
 * driver parse FILE                        a Config's text read and printed again
 * driver explain FIELD ...                 their rows; 1 after the first that has none */
#include "gen/graph/objectives.h"

#include <string.h>

int main(int argc, char **argv)
{
    objectives_install();
    if (argc == 3 && !strcmp(argv[1], "parse")) {
        const char *text = file_text(argv[2], 1 << 20, NULL);
        fputs(text ? config_print(config_parse(text, argv[2])) : "cannot read it\n", stdout);
        return !text;
    }
    if (argc >= 3 && !strcmp(argv[1], "explain")) {
        for (int i = 2; i < argc; i++) {
            const long before = ftell(stdout);
            config_explain(stdout, argv[i]);
            if (ftell(stdout) == before) {
                fprintf(stderr, "%s: nothing\n", argv[i]);
                return 1;
            }
        }
        return 0;
    }
    if (argc < 3 || strcmp(argv[1], "config")) {
        fputs("driver config RECIPE [FIELD=VALUE ...] | parse FILE | explain FIELD ...\n", stderr);
        return 2;
    }
    Config *c = config_fill(recipe_load(argv[2], argv + 3, argc - 3), argv[2]);
    check_config(c);
    fputs(config_print(c), stdout);
    return 0;
}
