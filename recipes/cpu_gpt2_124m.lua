-- GPT-2 124M, all weights in fp32.
return {
    about = "GPT-2 124M, full training in fp32",
    target = "cpu",
    precision = "fp32",
    model = use "models/gpt2_124m",
    seq = { max = 256 },
    batch = { micro = 4 },
    run = {
        steps = 100,
        lr = 6e-4, schedule = "cosine", warmup = 10,
        weight_decay = 0.1, beta2 = 0.95,
    },
}
