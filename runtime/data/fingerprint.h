/* fingerprint.h -- differences between two data fingerprints. */
#ifndef DIECAST_FINGERPRINT_H
#define DIECAST_FINGERPRINT_H

/* "samples 188 -> 190, file 1 has other content": what differs between two texts of data_fingerprint(), each perhaps
 * followed by "; beside " and a second one. malloc'ed; "" if nothing does; NULL if they have no common form. */
char *fingerprint_changes(const char *before, const char *now);

#endif
