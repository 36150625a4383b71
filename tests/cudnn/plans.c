/* plans.c -- cuDNN compiles attention for a GPU that is not here: sizes against our formula, and errors.
 *
 * In:    the JSON of a GPU's properties. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/workspace.h"
#include "runtime/attention_cudnn.h"
#include "runtime/base.h"

static const CudnnAttentionShape shapes[] = {
    {1, 4096, 28, 4, 128, 0.1f, false}, {8, 1024, 12, 12, 64, 0.1f, true}, {3, 100, 6, 3, 80, 0.1f, false},
    {2, 130, 4, 4, 72, 0.1f, false}};

int main(int n, char **word)
{
    static char json[4096];
    FILE *f = n == 2 ? fopen(word[1], "r") : NULL;
    if (!f || !fread(json, 1, sizeof json - 1, f))
        die(EXIT_CONFIG, "usage: plans h200.json");
    fclose(f);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int backward = 0; backward < 2; backward++) {
            const CudnnAttentionShape *s = &shapes[i];
            char *error = NULL;
            CudnnAttention *a =
                (backward ? cudnn_attention_backward : cudnn_attention_forward)(s, json, &error);
            printf("%d %d %s\n", (int)i, backward,
                   !a ? error
                   : cudnn_attention_workspace(a) ==
                           (backward ? attention_bwd_cudnn_workspace(s->B, s->T, s->H, s->K, s->D, 2)
                                     : attention_fwd_cudnn_workspace())
                       ? "as planned"
                       : format("%lld bytes", (long long)cudnn_attention_workspace(a)));
        }
    char *error = NULL;
    const CudnnAttentionShape odd = {1, 128, 2, 2, 12, 1, false};
    printf("odd %s\n", cudnn_attention_forward(&odd, json, &error) ? "compiled" : error);
    printf("json %s\n", cudnn_attention_forward(&shapes[0], "{}", &error) ? "compiled" : error);
    return 0;
}
