return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 4 },
    lora = { rank = 4, targets = { "c_proj" }, dropout = 0.1 },
    memory = { ffn_rows = 64 },
}
