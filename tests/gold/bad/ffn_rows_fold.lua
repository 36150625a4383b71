return {
    target = "sm_90",
    precision = "bf16",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 4 },
    lora = { rank = 4, targets = { "c_proj" }, fold = "all" },
    memory = { ffn_rows = 64 },
}
