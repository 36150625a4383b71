/* prepare.c -- --prepare: texts become a folder of token ids to train on. */
#define _GNU_SOURCE
#include "runtime/run/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/records_parts.h"

static void check_prepare(const Flags *f)
{
    if (strcmp(f->data_format, "auto") && strcmp(f->data_format, "windows"))
        die(EXIT_CONFIG, "--data-format %s: --prepare writes windows", f->data_format);
    if (f->given[FLAG_eval_share] && !(f->eval_share > 0))
        die(EXIT_CONFIG, "--eval-share 0: --prepare also writes validation rows: give more");
    if (!f->given[FLAG_out])
        die(EXIT_CONFIG, "--prepare: needs --out DIR, a folder for the arrays");
}

void prepare_texts(const Flags *f, const char *texts, const Model *m,
                     const FormatCode *const *formats, int64_t T, int64_t vocab, int64_t mask)
{
    int n;
    check_prepare(f);
    char **file = split_names(texts, &n), *text = NULL;
    size_t bytes;
    comm_expect(PACK_SECONDS);
    if (world.rank == 0) {
        char *tokenizer = records_tokenizer_of(f, true, "prepare", n ? file[0] : "", NULL);
        const PackOptions o = {.who = "prepare",
                               .tokenizer = tokenizer,
                               .formats = formats,
                               .vocab = vocab,
                               .mask = mask > 0 ? mask : 0,
                               .share = f->eval_share,
                               .max_length = T,
                               .nfiles = n,
                               .file = file,
                               .skip_bad = f->skip_bad,
                               .recipe = model_words(m, "model.vocab")};
        FILE *summary = open_memstream(&text, &bytes);
        PackError e = pack_prepare(&o, f->out, summary);
        fclose(summary);
        if (e.text)
            records_refuse(&e, "prepare", tokenizer, "");
        note_lines("", text);
        char *word = shell_word(f->out);
        note("%s: arrays of ids; --data %s trains on them", f->out, word);
        free(word), free(text), free(tokenizer);
    }
    comm_barrier();
    comm_expect(0);
    free(file);
}
