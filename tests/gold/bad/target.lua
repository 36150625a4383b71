return {
    target = "sm_75",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
}
