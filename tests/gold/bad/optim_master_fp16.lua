return {
    target = "sm_90",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    precision = "fp16",
    optim = { master = "remainder" },
}
