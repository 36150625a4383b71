-- Two ranks: gradients are summed between the programs of the backward pass and of the update.
return {
    name = "two_ranks", target = "cpu", gpus = 2, precision = "fp32",
    model = {
        family = "llama", layers = 2, hidden = 32, heads = 4, ffn = 64, vocab = 257,
    },
    seq = { max = 32 },
    batch = { micro = 2 },
}
