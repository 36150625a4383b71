/* h.h -- cases of the simulator's own tests: each runs in a process of its own.
 *
 * CASE(name) { ... } must end well; FAILS(name, "text") { ... } must end with SIM_EXIT and a line
 * on stderr that holds the text. Prints `ok NAME` or `not ok NAME: why`. */
#ifndef SIM_H_H
#define SIM_H_H

#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

struct HCase {
    const char *name, *expected;
    void (*run)();
};

inline std::vector<HCase> &h_cases()
{
    static std::vector<HCase> cases;
    return cases;
}

inline int h_add(const char *name, const char *expected, void (*run)())
{
    h_cases().push_back({name, expected, run});
    return 0;
}

#define FAILS(name, text)                                                                   \
    static void name();                                                                     \
    static const int name##_case = h_add(#name, text, name);                                \
    static void name()
#define CASE(name) FAILS(name, nullptr)

/* A condition of a case; the first that does not hold ends it. */
#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            _exit(1);                                                                       \
        }                                                                                   \
    } while (0)
#define OK(call) CHECK((call) == 0)

/* Captures stderr of a process of `run`; returns its wait status. */
inline int h_child(void (*run)(), std::string *said)
{
    int ends[2];
    if (pipe(ends) < 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        alarm(60);
        run();
        exit(0);
    }
    close(ends[1]);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        said->append(buffer, (size_t)n);
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    return status;
}

inline int h_main(const char *group)
{
    int failed = 0;
    sim_legacy_allowed = true;
    for (const HCase &c : h_cases()) {
        std::string said;
        int status = h_child(c.run, &said);
        bool good = c.expected ? WIFEXITED(status) && WEXITSTATUS(status) == SIM_EXIT &&
                                     said.find(c.expected) != std::string::npos
                               : status == 0;
        if (!said.empty() && said.back() == '\n')
            said.pop_back();
        for (char &letter : said)
            letter = letter == '\n' ? '|' : letter;
        if (good)
            printf("ok %s_%s\n", group, c.name);
        else
            printf("not ok %s_%s: status %#x, %s%s%s said: %s\n", group, c.name, (unsigned)status,
                   c.expected ? "not \"" : "", c.expected ? c.expected : "",
                   c.expected ? "\"," : "", said.c_str());
        fflush(stdout);
        failed += !good;
    }
    return failed != 0;
}

#endif
