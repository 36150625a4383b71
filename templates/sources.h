/* sources.h -- what the program is built from: the hash of all sources, as manifest.json has it. */
#define SOURCES_SHA256 "@HASH@"
