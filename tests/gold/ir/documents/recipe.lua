-- Rows side by side: places and ends go to embedding and attention, in two micro-batches; dropout in every place.
return {
    name = "documents", target = "cpu",
    model = { family = "gpt2", layers = 2, hidden = 32, heads = 4, vocab = 300, dropout = 0.1, attention_dropout = 0.2 },
    data = { kind = "bfd" },
    seq = { max = 48 },
    batch = { micro = 2, accum = 2 },
}
