-- MicroBERT in small, over 200 words: 5,501 parameters.
return extend(use "models/microbert_4x8", { layers = 2, heads = 2, vocab = 205, positions = 32 })
