/* tokenizer_class.h -- classes of transformers that rebuild a tokenizer instead of reading its
 * tokenizer.json. */
#ifndef DIECAST_TOKENIZER_CLASS_H
#define DIECAST_TOKENIZER_CLASS_H

#include <cjson/cJSON.h>

/* Returns what transformers 5 reads otherwise in a tokenizer.json whose tokenizer_config.json names
 * this tokenizer_class, such as "its pre_tokenizer"; NULL: nothing. config: tokenizer_config.json.
 * Static. */
const char *tokenizer_class_differs(const char *class, const cJSON *tokenizer, const cJSON *config);
/* Returns the class that AutoTokenizer takes for this model_type of config.json if
 * tokenizer_config.json names none; NULL: one that reads any tokenizer.json as it is. Static. */
const char *tokenizer_class_of(const char *model_type);
/* Returns the class that AutoTokenizer takes for this model_type of config.json, for any
 * tokenizer_class; NULL: it takes tokenizer_class. Static. */
const char *tokenizer_class_forced(const char *model_type);
/* The class that reads any tokenizer.json as it is. */
extern const char tokenizer_class_plain[];

#endif
