/* libraries.h -- versions of the libraries of programs with a model. */
#ifndef DIECAST_LIBRARIES_H
#define DIECAST_LIBRARIES_H

#include "runtime/library.h"

int libraries_of_model(LibraryVersion *list);        /* adds all libraries, those of the target
                                                        included; returns their number */
/* in libraries_cpu.c and libraries_cuda.c: those of the target and of its ranks */
int libraries_of_target(LibraryVersion *list);

#endif
