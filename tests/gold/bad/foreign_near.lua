return {
    target = "cpu",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    run = { leraning_rate = 1e-3, warmup_ratio = 0.1, resume_from_checkpoint = "last" },
    loadin_4bit = true,
}
