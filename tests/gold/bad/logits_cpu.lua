return {
    target = "cpu", precision = "bf16",
    model = { family = "llama", layers = 2, hidden = 64, heads = 4, ffn = 96, vocab = 257 },
    seq = { max = 32 }, batch = { micro = 2 },
    kernels = { logits = "16bit" },
}
