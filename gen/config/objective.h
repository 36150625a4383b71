/* objective.h -- objectives and their metrics: the rows of runtime/objectives. */
#ifndef OBJECTIVE_H
#define OBJECTIVE_H

#include "gen/config/config.h"

typedef struct {
    const char *name;        /* value of the field objective */
    const char *about;
    const char *kinds;       /* values of data.kind, between bars; "": no token files */
    const char *head;        /* what it puts on a model: for family_class() */
    const char *work;        /* the count whose rate is told */
    const char *decides;     /* the metric that says which validation is the best */
    bool standalone;              /* without a model of layers: templates/programs/NAME/ is its program */
} Objective;

const Objective *objective_find(const char *name);
/* The default of a run-time flag in recipes of the objective, as text; NULL: it has none of its own. */
const char *objective_default(const char *name, const char *flag);
/* How many sequences a sample is. */
int64_t objective_sequences(const Config *c);
/* batch.texts, or its default beside the other fields. */
int64_t config_texts(const Config *c);
/* Steps from a turn of a schedule to its next. */
int64_t objective_steps_a_turn(const Config *c, const char *schedule);
/* Whether a field is called after the objective, as mlm.share is: its host knows it. */
bool objective_owns(const char *name, const char *path);
int objective_count(void);
const Objective *objective_row(int i);

/* Words as in the row; what they mean in a program: runtime/run/metrics.h. */
typedef struct {
    const char *objective, *of, *name, *kind, *per, *better, *tag, *text;
} MetricRow;
extern const MetricRow metric_row[];
extern const int nmetrics;
typedef struct {
    const char *objective, *key, *tag;
} TagRow;
extern const TagRow tag_row[];
extern const int ntags;

#endif
