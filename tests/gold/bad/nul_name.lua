return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { ["max\0"] = 64 },
    batch = { micro = 2 },
}
