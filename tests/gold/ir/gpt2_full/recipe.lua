-- GPT-2, all weights trained: LayerNorm, tanh GELU, tied head, biases, transposed weights in files.
return {
    name = "gpt2_full", target = "cpu", precision = "fp32",
    model = { family = "gpt2", layers = 2, hidden = 32, heads = 4, vocab = 257, positions = 64, eos = 256 },
    seq = { max = 64 },
    batch = { micro = 2 },
}
