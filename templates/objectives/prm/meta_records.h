/* meta_records.h -- meta records, and the updates of record weights that they drive. */
#ifndef META_RECORDS_H
#define META_RECORDS_H

#include "runtime/run/records.h"
#include "solutions.h"

enum { UNROLL = @PRM_UNROLL@ };      /* steps between updates of the weights */

/* Opens --meta-data, which differ from --data in micro-batch size and order. */
void meta_open(const Flags *f, const RecordRules *rules, const Data *train, const Data *eval);
/* Fingerprint of the meta records; malloc'ed. The hook `other_records`. */
char *meta_fingerprint(void);

/* Updates of the weights in the first `steps` steps. */
int64_t meta_updates(int64_t steps);
/* Update number `turn` of `of`, from the records in the inputs of the step and the next meta
 * records. Sets the metrics of the meta loss. */
void meta_update(int64_t turn, int64_t of, double *sum);

/* For timing: arbitrary meta records, and the update after that step, if one is due. */
void meta_fill_any(int64_t micro);
void meta_update_any(int64_t step, int64_t total);

#endif
