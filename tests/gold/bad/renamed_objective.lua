return {
    target = "cpu",
    objective = "mdm",
    data = { kind = "rows" },
    model = { family = "encoder", layers = 2, hidden = 16, heads = 4, vocab = 50 },
    seq = { max = 8 },
    batch = { micro = 2 },
    mdm = { block = 9, mask = 50 },
}
