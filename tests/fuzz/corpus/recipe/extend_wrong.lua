local base = use "models/tiny_gpt2"
return {
    target = "cpu",
    model = extend(base, {
        layers = 2,
        heads = "four",
    }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
