/* shape.h -- shape constants of this recipe. */
#ifndef SHAPE_H
#define SHAPE_H

enum {
//@ constants
};
//@ numbers

#endif
