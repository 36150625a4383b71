/* model_folder.h -- a Hugging Face model folder as gen new and gen plan read it. */
#ifndef GEN_TOOLS_MODEL_FOLDER_H
#define GEN_TOOLS_MODEL_FOLDER_H

#include <cjson/cJSON.h>

#include "gen/config/family.h"
#include "gen/config/objective.h"
#include "gen/graph/ir.h"
#include "runtime/data/tokenizer.h"
#include "runtime/files/safetensors.h"

typedef struct {
    const char *path;                /* as typed, but for slashes at its end */
    cJSON *config;
    const Family *family;
    const Objective *objective;
    const char *class;               /* as config.json names it; "": it does not */
    const char *value[NFIELDS];      /* of fields, as words of the command line have them; NULL: not said */
    const char *key[NFIELDS];        /* of config.json, that said it */
    bool free[NFIELDS];              /* programs do not compare it */
    const char *unsaid;              /* what no such folder says, for people; NULL: nothing */
    Str faults, notes;               /* a line each; notes may be empty */
    bool weights;                    /* there are some, in safetensors: */
    StSet set;
    bool lacks_added;                /* layers that the objective adds; known after model_folder_check() */
    bool wide;                       /* some of them are BF16, which fp16 cannot hold */
    const char *stored, *stored_by;  /* a value of the field precision, and what told it */
    const char *tokenizer;           /* its file; NULL: there is none */
    const char *tokenizer_fault;     /* why it cannot be read; NULL: it can */
    Tokenizer *loaded;               /* NULL: there is none, or it cannot be read */
    int bos, eos;                    /* its tokens; -1: none */
    bool template;                   /* a chat template stands beside it, known or not */
    const char *chat, *chat_why, *chat_fault;    /* a name of chats.def or NULL; what told it; why there is none */
} ModelFolder;

/* Ends the program where a program's --init-from would. command: what word stood behind, for messages. objective: of
 * the recipe; NULL: chosen by the folder. */
ModelFolder *model_folder_read(const char *word, const char *command, const char *objective);
/* model.vocab becomes one more than the folder has, for the token that the field adds; an error where it has it. */
void model_folder_new_token(ModelFolder *m, const char *field, const char *token);
/* Its fields and these words field=value as a recipe of that path, checked. */
Config *model_folder_config(const ModelFolder *m, const char *recipe, char **word, int n);
/* What a program of this graph would say of config.json, as of a sequence that is too long for it; NULL: it takes
 * it. */
const char *model_folder_differs(const ModelFolder *m, const Graph *g);
/* Ends the program unless a program of this graph takes the folder in: config.json and, where there are weights, the
 * names and shapes of tensors. */
void model_folder_check(ModelFolder *m, const Graph *g);

#endif
