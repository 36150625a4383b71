/* unit.h -- one line a check: `ok name` or `not ok name: why`. */
#ifndef DIECAST_TESTS_UNIT_H
#define DIECAST_TESTS_UNIT_H

#include "../../runtime/data/recordfile.h"
#include <stdbool.h>

extern int failures;
/* why, printed when good is false. */
void check(bool good, const char *name, const char *why, ...)
    __attribute__((format(printf, 3, 4)));

/* A record file: each of its arrays is that of its name in `data`, in which others may stand too. */
typedef struct { const char *name; const void *from; } UnitArray;
typedef struct { const char *key, *value; } UnitMeta;
void unit_write_records(const char *path, int64_t records, const ColumnPlan *column, int columns,
                        const UnitArray *data, size_t arrays, const UnitMeta *meta, size_t metas);

void test_launch(void);
void test_schedule(void);
void test_param_groups(void);
void test_data(const char *scratch);
/* data_open of argv[2..]: kind, T, vocabulary, path, micro, targets, eval or train */
int unit_open(char **argv);
void test_steps(const char *scratch);
void test_log(const char *scratch);
void test_profile(const char *scratch);
void test_events(const char *scratch);
void test_sample(void);
void test_mask_draw(void);
void test_contexts(void);
void test_masked_batch(void);
void test_unmask_order(void);
void test_incontext(const char *scratch);
void test_sha256(void);
void test_normal(void);
void test_nf4(void);
void test_record_cache(const char *scratch);
void test_base(void);
void test_names(void);
void test_darkroom(void);
void test_histories(const char *scratch);
void test_plot(const char *scratch);

#endif
