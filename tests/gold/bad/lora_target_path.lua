return {
    target = "cpu",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    lora = { rank = 4, targets = { "mlp.c_attn", "c_attn,c_proj" } },
}
