return {
    target = "cpu",
    model = use "use/wrong_field",
    seq = { max = 64 },
    batch = { micro = 2 },
}
