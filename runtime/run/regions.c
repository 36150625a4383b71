/* regions.c -- a sign a step. */
#include "runtime/run/regions.h"

#include <inttypes.h>

#include "runtime/darkroom.h"

void regions_print(FILE *to, const uint16_t *code, int64_t steps, int64_t region)
{
    for (int64_t first = 0; first < steps; first += region) {
        const int64_t end = first + region < steps ? first + region : steps;
        fprintf(to, "%6" PRId64 "  <", first);
        for (int64_t t = first; t < end; t++)
            fprintf(to, "%s%c", t > first && t % DARKROOM_EPISODE == 0 ? "|" : "",
                    darkroom_reward_of(code[t]) ? '1' : '.');
        fputs(end == first + region ? "> " : "", to);
        for (int64_t t = first, sum = 0; t < end; t++) {
            sum += darkroom_reward_of(code[t]);
            if ((t + 1) % DARKROOM_EPISODE == 0)
                fprintf(to, " %2" PRId64, sum), sum = 0;
        }
        fputc('\n', to);
    }
}
