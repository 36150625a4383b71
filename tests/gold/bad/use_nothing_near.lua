return {
    target = "cpu",
    model = use "zzzzzzzzzzzz",
    seq = { max = 64 },
    batch = { micro = 2 },
}
