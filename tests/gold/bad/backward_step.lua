return {
    target = "sm_90",
    precision = "fp16",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2, accum = 2 },
    optim = { when = "backward" },
}
