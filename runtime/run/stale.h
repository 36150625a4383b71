/* stale.h -- refuses to run a program built before gen last rewrote its sources. */
#ifndef DIECAST_STALE_H
#define DIECAST_STALE_H

/* sources: hash of the sources the program was built from. EXIT_CONFIG if the manifest.json next to
 * the program has another hash; a program without a manifest, such as a copied one, runs. */
void stale_check(const char *sources);

#endif
