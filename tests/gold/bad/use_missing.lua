return {
    target = "cpu",
    model = use "models/tiny_gpt3",
    seq = { max = 64 },
    batch = { micro = 2 },
}
