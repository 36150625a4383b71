/* histories.c -- what the programs' reader says of a file of histories whose next states are those of resets. */
#include "../../runtime/data/histories.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    Histories h;
    char *error = histories_open(&h, argc > 1 ? argv[1] : "", &(HistoriesWanted){.resets = true});
    if (error)
        puts(error);
    else
        printf("%d %d %lld\n", h.tasks, h.streams, (long long)h.steps);
    return error != NULL;
}
