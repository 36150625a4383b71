return {
    target = "cpu",
    model = { family = "gpt2", layers = 2, hidden = 64, heads = 4, vocab = 257 },
    seq = { max = 32 }, batch = { micro = 2 },
    lora = { rank = 4, base = "nf4" },
}
