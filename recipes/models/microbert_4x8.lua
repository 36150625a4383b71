-- MicroBERT in its smallest size, over 10,000 words: 174,613 parameters.
-- The vocabulary is made of the data: gen pack --tokenizer words prints the model.vocab=N of its own.
return {
    family = "microbert",
    layers = 4, hidden = 8, heads = 4,
    vocab = 10005, positions = 128,
    dropout = 0.1, attention_dropout = 0.1,
}
