-- MicroBERT in its middle size, over 10,000 words: 351,925 parameters.
return extend(use "models/microbert_4x8", { layers = 6, hidden = 16, heads = 8 })
