/* arguments.h -- names of the numbers in kernel calls. */
#ifndef DIECAST_KERNELS_ARGUMENTS_H
#define DIECAST_KERNELS_ARGUMENTS_H

#define FLAG(attribute, off, on) enum { off, on };
#define ABSENT(attribute, name, value) enum { name = value };
#include "arguments.def"

enum { ONE_TENSOR = 1 };         /* of an array: that of a loop's turn */

#endif
