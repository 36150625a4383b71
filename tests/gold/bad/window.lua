return {
    target = "cpu",
    model = { family = "gemma3_text", layers = 2, hidden = 16, heads = 2, head_dim = 8, ffn = 32, vocab = 257,
        window = 32, rope_scaling = "llama3" },
    seq = { max = 64 },
    batch = { micro = 1 },
}
