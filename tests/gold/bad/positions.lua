return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 129 },
    batch = { micro = 2 },
}
