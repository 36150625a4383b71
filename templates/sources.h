/* sources.h -- hash of all sources of the program, as in manifest.json. */
#define SOURCES_SHA256 "@HASH@"
