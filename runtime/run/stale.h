/* stale.h -- refuses a program that was built before gen last rewrote its sources. */
#ifndef DIECAST_STALE_H
#define DIECAST_STALE_H

/* sources: the hash of the sources that the program was built from. Ends the program (EXIT_CONFIG) when manifest.json
 * beside it has another; a program without a manifest, as one that was copied, goes on. */
void stale_check(const char *sources);

#endif
