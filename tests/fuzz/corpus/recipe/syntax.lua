return {
    target = "cpu",
    seq = { max = 64 }
    batch = { micro = 2 },
}
