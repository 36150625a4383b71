/* reads.c -- which flags a command reads: linked into programs that tests/cc --reads compiled, whose
 * memory accesses call the functions below.
 *
 * When the program exits it appends a line `FLAG READ MAY COMMAND` for each of its flags to the file
 * $READS: whether the flag's value was read, whether the flag may be given with this command, and
 * whether it is a command that reads flags (flags.def).
 * flags.c and flags_parse.c, which read every flag, are compiled without such calls. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/names.h"
#include "runtime/objectives/owners.h"
#include "runtime/run/flags_rows.h"

enum { COPIES = 8 };

static const Flags *of[COPIES];      /* the program's flags and copies of them */
static atomic_int copies;
static atomic_bool is_read[FLAG_COUNT];
static bool reader[FLAG_COUNT], has_command;

/* Marks the flag whose value is at this address, if there is one. */
static void load(const char *at, size_t bytes)
{
    for (int c = 0; c < copies; c++) {
        const char *from = (const char *)of[c];
        if (at < from || at >= from + sizeof(Flags) || bytes >= sizeof(Flags))
            continue;
        for (int i = 0; i < FLAG_COUNT; i++)
            if (at == from + flags_row[i].offset || at == (const char *)&of[c]->many[i])
                is_read[i] = true;
    }
}

/* A struct that is as large as Flags is written: a copy of the flags. */
static void store(const char *at, size_t bytes)
{
    if (bytes != sizeof(Flags) || !copies)
        return;
    const int c = atomic_fetch_add(&copies, 1);
    if (c >= COPIES)
        abort();
    of[c] = (const Flags *)at;
}

#define ACCESS(bytes)                                                                          \
    void __tsan_read##bytes(const char *at) { load(at, bytes); }                               \
    void __tsan_write##bytes(const char *at) { store(at, bytes); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(const char *at, size_t bytes) { load(at, bytes); }
void __tsan_write_range(const char *at, size_t bytes) { store(at, bytes); }
void __tsan_init(void) {}

/* Functions that read the flag of a row. */
#define READS(type, function)                                                                  \
    type __real_##function(const Flags *f, int i);                                             \
    type __wrap_##function(const Flags *f, int i)                                              \
    {                                                                                          \
        is_read[i] = is_read[i] || has_command;                                                \
        return __real_##function(f, i);                                                        \
    }
READS(bool, flags_on)
READS(double, flags_number)
READS(const char *, flags_word)
READS(int64_t, flags_many)

void __real_flags_parse(Flags *f, const Made *made, const FlagDefault *defaults, int argc,
                        char **argv);
void __wrap_flags_parse(Flags *f, const Made *made, const FlagDefault *defaults, int argc,
                        char **argv)
{
    __real_flags_parse(f, made, defaults, argc, argv);
    of[0] = f;
    copies = 1;
}

/* True if flag i has no effect without one of others, of which none is on. */
static bool lacks(const Flags *f, int i, int flag, int owners, const char *others)
{
    if (i != flag || !(owners == OWNERS_all || owners_include(owners, flags_objective)))
        return false;
    for (int k = 0; k < FLAG_COUNT; k++)
        if (flags_has(k) && names_listed(others, flags_row[k].name) && __real_flags_on(f, k))
            return false;
    return true;
}

/* True if the command may be given flag i. Those that show a training beforehand take all of its
 * flags: of them only their own. */
static bool may_read(const Flags *f, int i, int command, bool weights)
{
    const bool preview = command == FLAG_dry_run || command == FLAG_bench_steps || command == FLAG_show;
    bool lacking = false;
#define WITH(flag, owners, others) \
    lacking = lacking || lacks(f, i, FLAG_##flag, OWNERS(owners), others);
#include "runtime/run/flags.def"
    return flags_reads(i, command, weights) && !lacking &&
           !(preview && flags_reads(i, -1, false));
}

void __real_flags_check_readers(const Flags *f, int command, bool weights);
void __wrap_flags_check_readers(const Flags *f, int command, bool weights)
{
    __real_flags_check_readers(f, command, weights);
    has_command = true;
    for (int i = 0; i < FLAG_COUNT; i++) {
        reader[i] = may_read(f, i, command, weights);
        is_read[i] = is_read[i] || i == command;
    }
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("READS");
    FILE *to = path && has_command ? fopen(path, "a") : NULL;
    for (int i = 0; to && i < FLAG_COUNT; i++)
        if (flags_has(i))
            fprintf(to, "%s %d %d %d\n", flags_row[i].name, is_read[i], reader[i],
                    names_listed(flags_row[i].readers, flags_row[i].name) &&
                        !names_listed(flags_row[i].readers, "any"));
    if (to)
        fclose(to);
}
