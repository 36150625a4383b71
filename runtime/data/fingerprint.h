/* fingerprint.h -- differences between two data fingerprints. */
#ifndef DIECAST_FINGERPRINT_H
#define DIECAST_FINGERPRINT_H

/* Returns the differences between two texts of data_fingerprint(), e.g. "samples 188 -> 190, file 1
 * has different content"; each text may be followed by "; beside " and the fingerprint of other
 * records. malloc'ed; "": no difference; NULL: the texts have no common form. Files of earlier
 * releases have no special=, which is no difference. */
char *fingerprint_changes(const char *before, const char *now);

#endif
