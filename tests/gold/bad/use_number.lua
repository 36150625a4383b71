return {
    target = "cpu",
    model = use(7),
    seq = { max = 64 },
    batch = { micro = 2 },
}
