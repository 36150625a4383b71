return {
    target = "cpu",
    model = use "use/number",
    seq = { max = 64 },
    batch = { micro = 2 },
}
