-- args: -d graph
-- Matrices of 32 x 32 elements: their moments stay fp32, and so do those of the embedding, which is larger.
return {
    target = "cpu",
    model = { family = "llama", layers = 2, hidden = 32, heads = 2, ffn = 48, vocab = 257, tied = true },
    seq = { max = 32 },
    batch = { micro = 2 },
    optim = { moments = "8bit" },
}
