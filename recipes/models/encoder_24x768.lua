-- An encoder of 24 layers over characters, from scratch: 173,290,053 parameters of 69 characters.
-- gen pack --tokenizer char prints the model.vocab=N of other texts.
return {
    family = "encoder",
    layers = 24, hidden = 768, heads = 12,
    vocab = 69, positions = 4096,
    dropout = 0.1, attention_dropout = 0.1,
    bos = 1, eos = 2,
}
