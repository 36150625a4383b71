/* resume_path.h -- the checkpoint folder that --resume PATH names. */
#ifndef DIECAST_RESUME_PATH_H
#define DIECAST_RESUME_PATH_H

/* Returns the path of the folder, malloc'ed, without a slash at its end: PATH itself, else
 * OUT/PATH; for X.pt, X.pth, X.ckpt or X.bin, as PyTorch names its files, also the folder X, with a
 * note. Ends with EXIT_NO_CKPT if there is none. */
char *resume_path(const char *path, const char *out);

#endif
