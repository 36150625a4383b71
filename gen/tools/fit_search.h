/* fit_search.h -- the search for settings with which a recipe fits a memory limit. */
#ifndef GEN_FIT_SEARCH_H
#define GEN_FIT_SEARCH_H

#include "gen/tools/fit_rows.h"

/* Ends the program if the recipe accepts no words with what is asked. */
FitTable fit_search(const FitAsk *ask);

#endif
