return {
    target = "sm_130",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
}
