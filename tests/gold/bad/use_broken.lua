return {
    target = "cpu",
    model = use "use/broken",
    seq = { max = 64 },
    batch = { micro = 2 },
}
