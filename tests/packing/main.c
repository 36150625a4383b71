/* main.c -- `gen pack-buffers` on its own, for when the generator is not built yet. */
#include "../../gen/tools/packing_csv.h"

int main(int argc, char **argv) {
    return packing_main(argc, argv);
}
