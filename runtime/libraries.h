/* libraries.h -- versions of the libraries of programs with a model. */
#ifndef DIECAST_LIBRARIES_H
#define DIECAST_LIBRARIES_H

#include "runtime/library.h"

/* Adds all libraries, those of the target and of its ranks included; returns their number.
 * Defined in libraries_cpu.c or libraries_cuda.c. */
int libraries_of_model(LibraryVersion *list);

#endif
