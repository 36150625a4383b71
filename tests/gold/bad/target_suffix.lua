return {
    target = "sm_90a",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
}
