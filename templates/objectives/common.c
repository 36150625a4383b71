/* common.c -- host code shared by several objectives. A line `//@ from common.c PART` of a template
 * is replaced by the lines of that part. */
//@ part batch_at
/* The inputs of a micro-batch. */
static inline Batch batch_at(int64_t micro)
{
    return (Batch){
//@ batch
    };
}
//@ part suit
/* Weights fit only records with the token ids they were trained on. */
void objective_suit(const WeightFolders folder, const Data *records)
{
    vocabulary_check(folder, WEIGHT_FOLDERS, records);
}
//@ part work
int64_t objective_work(void)
{
    return B * T * model.accum * model.ranks;
}
//@ part decoder
/* Logits of the next token, after token[i] at position[i] of each text. */
static const float *next_logits(const int32_t *token, const int32_t *position)
{
    memcpy(io.token, token, DECODE_B * sizeof *io.token);
    memcpy(io.position, position, DECODE_B * sizeof *io.position);
    step_decode();
    step_wait();
    comm_advance();
    return io.logits;
}

static const Decoder decoder = {.positions = T, .vocab = V, .texts = DECODE_B,
//@ if communicates_decode
                                .collective = true,
//@ end
                                .logits = next_logits};
//@ part talk
/* --sample TEXT, --prompts FILE: prints what the model generates after each prompt. */
static int sample(const Flags *f, const WeightFolders folder)
{
    return generate_print(&decoder, f, folder, WEIGHT_FOLDERS);
}

/* --chat */
static int chat(const Flags *f, const WeightFolders folder)
{
    return chat_run(&decoder, f, folder, WEIGHT_FOLDERS);
}
//@ part masked_fill
static MaskedCounts counted[2];  /* of even and odd steps: one runs while the next is filled */

/* The loss of a step is the mean over the masked tokens of all its micro-batches and ranks. */
static void set_counts(int64_t step, MaskedCounts c)
{
    const int64_t divisor = masked_divisor(&hidden, &c);
    counted[step % 2] = c;
    *io.scale = divisor ? (float)(1.0 / (double)divisor) : 0;
}

void objective_fill(Data *d, int64_t step)
{
    set_counts(step, masked_count(&hidden, d, step));
    for (int64_t micro = 0; micro < model.accum; micro++)
        masked_fill(&hidden, d, step, micro);
}

void objective_fill_any(void)
{
    set_counts(0, masked_fill_any(&hidden));
}
//@ part masked_show
static bool show(Data *d, int64_t step, int64_t micro, int64_t b, ShownRow *to)
{
    const Batch at = batch_at(micro);
    DataRow its;
    if (b == B)
        return false;
    data_row(d, step, micro, b, &its);
    snprintf(to->about, sizeof to->about, "sample %lld", (long long)its.sample);
    show_labels(to, &at, b, at.lengths[b], T, false);
    return true;
}
