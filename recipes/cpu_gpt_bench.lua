-- A very small GPT for timing: 64 wide, 15,360 tokens a step.
return {
    about = "very small GPT (4 layers, 64 wide) for timing",
    target = "cpu",
    precision = "fp32",
    model = {
        family = "gpt2",
        layers = 4, hidden = 64, heads = 4,
        vocab = 257, positions = 240,
        eos = 256,
    },
    seq = { max = 240 },
    batch = { micro = 64 },
    run = { steps = 100, lr = 1e-3 },
}
