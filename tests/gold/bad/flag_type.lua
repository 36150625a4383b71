return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    run = {
        lr = "1e-3",
        steps = 1.5,
        exact = 1,
        out = 7,
    },
}
