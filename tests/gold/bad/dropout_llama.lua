return {
    target = "cpu",
    model = {
        family = "llama", layers = 2, hidden = 32, heads = 4, ffn = 64, vocab = 257,
        dropout = 0.1, attention_dropout = 0.1,
    },
    seq = { max = 64 },
    batch = { micro = 2 },
}
