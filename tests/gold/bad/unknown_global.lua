local tokens = 64
return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = tokns },
    batch = { micro = 2 },
}
