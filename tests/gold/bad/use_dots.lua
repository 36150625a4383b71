return {
    target = "cpu",
    model = use "../../../etc/passwd",
    seq = { max = 64 },
    batch = { micro = 2 },
}
