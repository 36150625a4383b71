/* model_folder.h -- Hugging Face model folders as recipe fields, for gen new and gen plan. */
#ifndef GEN_TOOLS_MODEL_FOLDER_H
#define GEN_TOOLS_MODEL_FOLDER_H

#include <cjson/cJSON.h>

#include "gen/config/family.h"
#include "gen/config/objective.h"
#include "gen/graph/ir.h"
#include "runtime/data/tokenizer.h"
#include "runtime/files/safetensors.h"

typedef struct {
    const char *path;                /* as typed, without slashes at its end */
    cJSON *config;
    const Family *family;
    const Objective *objective;
    const char *class;               /* class name in config.json; "": none */
    /* values of fields, as on the command line; NULL: not in the folder */
    const char *value[NFIELDS];
    const char *key[NFIELDS];        /* its key in config.json */
    bool free[NFIELDS];              /* programs do not compare the field */
    const char *unsaid;              /* note on settings that no such folder has; NULL: none */
    Str faults, notes;               /* lines; notes may be empty */
    bool weights;                    /* there are safetensors weights, in `set` */
    StSet set;
    bool lacks_added;                /* lacks the objective's layers; set by model_folder_check() */
    bool nf4;                        /* bitsandbytes quantised it: adapters only */
    bool wide;                       /* some weights are BF16, which fp16 cannot hold */
    const char *stored, *stored_by;  /* value for precision, and its source */
    const char *tokenizer;           /* file; NULL: none */
    const char *tokenizer_fault;     /* why it cannot be read; NULL: it can */
    Tokenizer *loaded;               /* NULL: none, or it cannot be read */
    int bos, eos;                    /* token ids; -1: none */
    bool template;                   /* has a chat template, known or not */
    /* name in chats.def or NULL; its source; why there is none */
    const char *chat, *chat_why, *chat_fault;
} ModelFolder;

/* Ends the program where --init-from would. command: text before `word`, for messages. objective:
 * of the recipe; NULL: chosen by the folder. */
ModelFolder *model_folder_read(const char *word, const char *command, const char *objective);
/* Increments model.vocab for the token that `field` adds; an error if the folder has the token. */
void model_folder_new_token(ModelFolder *m, const char *field, const char *token);
/* Config of the folder's fields and these field=value words, checked; recipe: its path. */
Config *model_folder_config(const ModelFolder *m, const char *recipe, char **word, int n);
/* Message with which a program of this graph would refuse config.json, for example because
 * sequences are too long; NULL: it accepts it. */
const char *model_folder_differs(const ModelFolder *m, const Graph *g);
/* Ends the program unless a program of this graph accepts the folder: config.json and, if there are
 * weights, names and shapes of tensors. */
void model_folder_check(ModelFolder *m, const Graph *g);

#endif
