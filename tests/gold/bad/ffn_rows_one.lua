return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 4 },
    memory = { ffn_rows = 256 },
}
