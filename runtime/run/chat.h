/* chat.h -- a conversation with a model: questions from standard input, answers as their tokens come.
 *
 * In:    a line a question; from a terminal, or from a script. */
#ifndef DIECAST_CHAT_H
#define DIECAST_CHAT_H

#include "runtime/run/continuation.h"

/* --chat, until standard input ends; the exit status. Rank 0 reads and writes, all ranks call. What cannot be
 * answered is said on a terminal; from elsewhere it ends the program with EXIT_DATA. */
int chat_run(const Decoder *d, const Flags *f, const char *const folder[], int nfolders);

#endif
