/* progress.c -- progress lines: their parts, and those that fit a terminal. */
#define _GNU_SOURCE
#include "runtime/run/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/base.h"

enum { PARTS = 24, BAR_LEAST = 4, BAR_MOST = 20 };

void progress_clock(char to[32], double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(to, 32, "?");
        return;
    }
    long long s = (long long)(seconds + 0.5), days = s / 86400;
    if (days > 3)
        snprintf(to, 32, "%lld d %02lld:%02lld", days, s / 3600 % 24, s / 60 % 60);
    else
        snprintf(to, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

void progress_number(char to[32], double rate)
{
    if (!(rate >= 0 && rate < 1e15))
        snprintf(to, 32, "?");
    else if (rate >= 1e6)
        snprintf(to, 32, "%.2fM", rate / 1e6);
    else
        snprintf(to, 32, "%.*f", rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
}

/* Returns " GPU 87 % 61.2/79.6 GiB", as far as it is known; malloc'ed. */
static char *gpu_text(const DeviceUse *u)
{
    const double gib = 1 << 30;
    char busy[32] = "", memory[64] = "";
    if (u && u->busy >= 0)
        snprintf(busy, sizeof busy, " %.0f %%", u->busy);
    if (u && u->total > 0)
        snprintf(memory, sizeof memory, " %.1f/%.1f GiB", (double)u->used / gib,
                 (double)u->total / gib);
    return format("%s%s%s", *busy || *memory ? "  GPU" : "", busy, memory);
}

char *progress_line(const Progress *p)
{
    char left[32], rate[32], *gpu = gpu_text(p->gpu);
    progress_clock(left, p->left);
    progress_number(rate, p->rate);
    char *line = format("step %lld/%lld  %s  norm %.4g  lr %.3e  %s %s/s  left %s%s",
                        (long long)p->step, (long long)p->total, p->metrics, p->grad_norm, p->lr,
                        rate, p->unit, left, gpu);
    free(gpu);
    return line;
}

/* Parts in the order of the line; worth: those with 0 get room first. */
typedef struct {
    char *text;
    int worth;
    bool shown;
} Part;

enum { WORTH_STEP, WORTH_LOSS, WORTH_LEFT, WORTH_BAR, WORTH_RATE, WORTH_LR, WORTH_GPU, WORTH_NORM,
       WORTH_MORE, WORTHS };

static void add(Part *part, int *n, int worth, char *text)
{
    part[(*n)++] = (Part){text, worth, false};
}

/* Returns the bar, with that many columns between its brackets. */
static char *bar_text(const Progress *p, int places)
{
    char bar[BAR_MOST + 1] = "";
    double done = p->total > 0 ? (double)p->step / (double)p->total : 1;
    for (int i = 0; i < places; i++)
        bar[i] = i < (int)(done * places + 1e-9) ? '#' : '.';
    return format(" [%s]", bar);
}

char *progress_row(const Progress *p, int columns)
{
    Part part[PARTS];
    char left[32], rate[32];
    int n = 0, room = columns - 1, bar = -1;
    progress_clock(left, p->left);
    progress_number(rate, p->rate);
    add(part, &n, WORTH_STEP, format("%lld/%lld", (long long)p->step, (long long)p->total));
    bar = n;
    add(part, &n, WORTH_BAR, bar_text(p, BAR_LEAST));
    const char *at = p->metrics;
    for (int worth = WORTH_LOSS; *at && n < PARTS - 5; worth = WORTH_MORE) {
        const char *end = strstr(at, "  ") ? strstr(at, "  ") : at + strlen(at);
        add(part, &n, worth, format("  %.*s", (int)(end - at), at));
        at = end + strspn(end, " ");
    }
    add(part, &n, WORTH_NORM, format("  norm %.3g", p->grad_norm));
    add(part, &n, WORTH_LR, format("  lr %.2e", p->lr));
    add(part, &n, WORTH_RATE, format("  %s %s/s", rate, p->unit));
    add(part, &n, WORTH_LEFT, format("  left %s", left));
    add(part, &n, WORTH_GPU, gpu_text(p->gpu));
    for (int worth = 0; worth < WORTHS; worth++)
        for (int i = 0; i < n; i++)
            if (part[i].worth == worth && (int)strlen(part[i].text) <= room) {
                part[i].shown = true;
                room -= (int)strlen(part[i].text);
            }
    if (part[bar].shown) {
        free(part[bar].text);
        part[bar].text = bar_text(p, room + BAR_LEAST < BAR_MOST ? room + BAR_LEAST : BAR_MOST);
    }
    char *row = format("%s", "");
    for (int i = 0; i < n; i++) {
        char *longer = format("%s%s", row, part[i].shown ? part[i].text : "");
        free(row), free(part[i].text);
        row = longer;
    }
    return row;
}

static int columns_of(int fd)
{
    struct winsize size = {0};
    return fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int progress_columns(void)
{
    const char *columns = getenv("DIECAST_TERMINAL");
    int n = columns_of(2);
    if (n == 0 && columns) {
        const int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
        n = columns_of(terminal);
        if (terminal >= 0)
            close(terminal);
        n = n > 0 ? n : atoi(columns);
    }
    return n > 0 ? n : 80;
}
