/* pack_main.c -- gen pack on its own, so that the test runs it with sanitizers and before gen is
 * built; and, with one name of chats.def alone, its template. */
#include "runtime/pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pack_main(int argc, char **argv);

int main(int argc, char **argv)
{
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
