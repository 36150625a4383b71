/* failure.c -- advice after a failure, by the rows HINT and FAILED of hints.def.
 *
 * Keeps: the commands work when pasted into a shell in the current folder. */
#define _GNU_SOURCE
#include "runtime/run/failure.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/names.h"

/* How the program was started, its run folder, and what repeating the command does; NULL:
 * unknown. */
static int arguments;
static char **argument;
static const char *folder, *once_more;
static void (*hook_before)(int code);

/* ---- words ----------------------------------------------------------------------------------- */

char *failure_program(void)
{
    const char *program = argument[0];
    char here[4096];
    const char *slash = strrchr(program, '/');
    char *script = slash ? format("%.*s/run.sh", (int)(slash - program), program) : NULL;
    const char *path = script && access(script, X_OK) == 0 ? script : program;
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (n > 1 && !strncmp(path, here, n) && path[n] == '/')
        path += n + 1;
    char *text = shell_word(path), *found = format("%s%s", strchr(text, '/') ? "" : "./", text);
    free(script), free(text);
    return found;
}

char *failure_filled(const char *line, const FailureHole *hole, int n)
{
    char *text = format("%s", "");
    while (*line) {
        const size_t plain = strcspn(line, "{");
        const char *put = "";
        size_t taken = plain;
        for (int i = 0; i < n && line[plain]; i++)
            if (!strncmp(line + plain + 1, hole[i].name, strlen(hole[i].name)) &&
                line[plain + 1 + strlen(hole[i].name)] == '}') {
                put = hole[i].text;
                taken = plain + strlen(hole[i].name) + 2;
            }
        if (taken == plain && line[plain])
            taken = plain + 1;   /* a literal brace */
        char *longer = format("%s%.*s%s", text, (int)plain, line, put);
        free(text);
        text = longer;
        line += taken;
    }
    return text;
}

/* Returns the command without --force and --resume, which would start over, and without `but`, a
 * flag with a value if `valued`; malloc'ed. */
static char *command(const char *but, bool valued)
{
    char *text = failure_program();
    for (int i = 1; i < arguments; i++) {
        const size_t n = strcspn(argument[i], "=");
        char *flag = format("%.*s", (int)n, argument[i]);
        const bool resume = !strcmp(flag, "--resume"),
                   left_out = valued ? names_same(flag, but) : !strcmp(argument[i], but);
        free(flag);
        if (resume || (valued && left_out))
            i += !argument[i][n];
        if (resume || left_out || !strcmp(argument[i], "--force"))
            continue;
        char *one = shell_word(argument[i]), *longer = format("%s %s", text, one);
        free(one), free(text);
        text = longer;
    }
    return text;
}

static char *again(const char *but)
{
    return command(but, false);
}

char *failure_command(const char *but)
{
    return argument ? command(but, true) : NULL;
}

/* Returns what {again} does. */
static char *goes_on(void)
{
    if (once_more)
        return format("%s", once_more);
    int n = 0;
    int64_t *list = folder ? folder_steps(folder, &n) : NULL;
    char *text = n > 0 ? format("continues from checkpoint-%" PRId64, list[n - 1])
                 : n < 0 && errno != ENOENT ? format("continues from the newest checkpoint")
                                            : format("starts over: there is no checkpoint");
    free(list);
    return text;
}

/* ---- a failure ------------------------------------------------------------------------------- */

static bool message_has(const char *pattern)
{
    char *any = format("*%s*", pattern);
    const bool has = fnmatch(any, die_text(), 0) == 0;
    free(any);
    return has;
}

/* Returns the line of hints.def for the message and its code; NULL: none. */
static const char *line_for(int code)
{
    static const struct { const char *message, *line; } hints[] = {
#define HINT(message, line) {message, line},
#include "runtime/run/hints.def"
    };
    static const struct { int code; const char *line; } rows[] = {
#define FAILED(code, line) {EXIT_##code, line},
#include "runtime/run/hints.def"
    };
    const bool by_errno = error_remedy(die_text());
    for (size_t i = 0; i < sizeof hints / sizeof *hints && !by_errno; i++)
        if (message_has(hints[i].message))
            return hints[i].line;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == (by_errno ? EXIT_IO : code))
            return rows[i].line;
    return NULL;
}

static void say_failure(int code)
{
    const char *remedy = error_remedy(die_text()), *row = line_for(code);
    if (row) {
        FailureHole hole[] = {{"program", failure_program()},
                              {"again", again("")},
                              {"on", goes_on()},
                              {"out", shell_word(folder ? folder : "OUT")},
                              {"remedy", format("%s", remedy ? remedy : "fix that")}};
        char *line = failure_filled(row, hole, sizeof hole / sizeof *hole);
        if (world.rank == 0)
            note("next: %s", line);
        else
            fprintf(stderr, "next: %s\n", line);
        free(line);
        for (size_t k = 0; k < sizeof hole / sizeof *hole; k++)
            free(hole[k].text);
    }
    if (hook_before)
        hook_before(code);
}

void failure_of(int argc, char **argv, const char *out, const char *again_does)
{
    arguments = argc, argument = argv, folder = out, once_more = again_does;
    if (die_hook != say_failure)
        hook_before = die_hook;
    die_hook = say_failure;
}

void failure_again(const char *but, const char *about)
{
    char *line = again(but);
    note("next: %s %s", line, about);
    free(line);
}
