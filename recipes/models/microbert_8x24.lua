-- MicroBERT in its largest size, over 10,000 words: 551,157 parameters.
return extend(use "models/microbert_4x8", { layers = 8, hidden = 24, heads = 12 })
