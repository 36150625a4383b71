return {
    target = "cpu",
    objective = "masked_diffusion",
    data = { kind = "rows" },
    model = { family = "encoder", layers = 2, hidden = 16, heads = 4, vocab = 50 },
    seq = { max = 8 },
    batch = { micro = 2 },
    diffusion = { block = 9, mask = 50 },
}
