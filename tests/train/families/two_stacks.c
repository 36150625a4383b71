/* two_stacks.c -- the objective lm over two stacks: that of the recipe's family, and four layers of the family top on
 * it. Takes the place of lm.c, whose text it has: what a pass is there is one of both stacks here. */
#include "gen/graph/graph.h"

typedef struct { Pass below, above; } Two;

static void upper(Build *b, Two *two, Pass (*pass)(Build *b, const char *name), const char *name)
{
    const Family *family = b->family;
    const Stack stack = b->stack;
    b->family = family_find("top");
    b->stack = (Stack){"top.", dim(4, "M"), 0};
    two->above = pass(b, name);
    b->family = family;
    b->stack = stack;
}

static Pass trained(Build *b, const char *name)
{
    (void)name;
    return pass_trained(b);
}

static Two two_trained(Build *b)
{
    Two two = {.below = pass_trained(b)};
    upper(b, &two, trained, "");
    return two;
}

static Two two_only(Build *b, const char *name)
{
    b->family = family_find(b->g->family);
    b->stack = (Stack){"", dim(config_int(b->c, F_model_layers), "L"), 0};
    Two two = {.below = pass_only(b, name)};
    upper(b, &two, pass_only, text_print("%s.top", name));
    return two;
}

static Ref two_forward(Build *b, Two *two)
{
    two->above.from = pass_forward(b, &two->below);
    return pass_forward(b, &two->above);
}

static Ref two_rows(Build *b, Two *two, Rows rows)
{
    two->above.from = pass_forward(b, &two->below);
    return pass_rows(b, &two->above, rows);
}

static void two_backward(Build *b, const Two *two, int end)
{
    pass_backward(b, &two->above, end);
    pass_backward(b, &two->below, two->above.begin);
}

static Ref two_last(Build *b)
{
    Two two = two_only(b, "d.x");
    return two_forward(b, &two);
}

static void two_decode(Build *b) { head_decode_of(b, two_last); }

#define Pass Two
#define head_decode two_decode
#define pass_trained two_trained
#define pass_only two_only
#define pass_forward two_forward
#define pass_rows two_rows
#define pass_backward two_backward
#include "gen/graph/objectives/lm.c"
