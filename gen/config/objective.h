/* objective.h -- objectives and their metrics: the rows of runtime/objectives. */
#ifndef OBJECTIVE_H
#define OBJECTIVE_H

#include "gen/config/config.h"

typedef struct {
    const char *name;        /* value of the field objective */
    const char *about;
    const char *kinds;       /* values of data.kind, between bars; "": no token files */
    const char *head;        /* the model head that it uses, for family_class() */
    const char *work;        /* count whose rate the log shows */
    const char *decides;     /* metric that decides the best validation */
    bool standalone;         /* no layered model: its program is templates/programs/NAME/ */
} Objective;

const Objective *objective_find(const char *name);       /* bug() if there is none */
/* The objective's own default of a run-time flag, as text; NULL: the flag's usual default. */
const char *objective_default(const char *name, const char *flag);
/* Number of sequences in a sample. */
int64_t objective_sequences(const Config *c);
/* batch.texts, or the default that follows from the other fields. */
int64_t config_texts(const Config *c);
/* Number of training steps between two turns of a schedule. */
int64_t objective_steps_a_turn(const Config *c, const char *schedule);
/* True if the field's section is the objective's name, as in mlm.share, or its last words, as in
 * diffusion.mode with masked_diffusion; templates/objectives/NAME.c can then use it. */
bool objective_owns(const char *name, const char *path);
/* " (objective=NAME trains on KIND)", for messages, with the first such objective; "": none. */
const char *objective_for(const char *kind);
int objective_count(void);
const Objective *objective_row(int i);

/* Columns of a METRIC row; runtime/run/metrics.h has their meaning in a program. */
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
