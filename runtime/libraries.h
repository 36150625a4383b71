/* libraries.h -- versions of the libraries of programs with a model. */
#ifndef DIECAST_LIBRARIES_H
#define DIECAST_LIBRARIES_H

#include "runtime/library.h"

int libraries_of_model(LibraryVersion *list);        /* with those of the target; how many */
/* libraries_cpu.c, libraries_cuda.c: of the target and of its ranks */
int libraries_of_target(LibraryVersion *list);

#endif
