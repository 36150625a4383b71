return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    lora = { rank = 4, targets = { "c_proj" } },
    batch = { micro = 4 },
    memory = { ffn_rows = 64 },
}
