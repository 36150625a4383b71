/* score_files.h -- commands that score the solutions of files: --score, --best-of-n. */
#ifndef SCORE_FILES_H
#define SCORE_FILES_H

#include "objective.h"

extern const ObjectiveCommand commands[];

#endif
