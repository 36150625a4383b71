return {
    family = "gpt2",
    layers = 4, hidden = 128, heads = 4,
    vocab = 1,
}
