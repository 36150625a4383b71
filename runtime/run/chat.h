/* chat.h -- interactive chat (--chat): reads questions from standard input and streams the answers.
 *
 * In:    one question per line, from a terminal or a script. */
#ifndef DIECAST_CHAT_H
#define DIECAST_CHAT_H

#include "runtime/run/generate.h"

/* Runs until standard input ends; returns the exit status. Collective; rank 0 reads and writes. A
 * question that cannot be answered gets a message on a terminal, and ends the program with
 * EXIT_DATA otherwise. */
int chat_run(const Decoder *d, const Flags *f, const char *const folder[], int nfolders);

#endif
