-- args: -d plan
return {
    target = "sm_90", precision = "bf16",
    model = { family = "llama", layers = 24, hidden = 2048, heads = 16, ffn = 8192, vocab = 300, tied = false },
    seq = { max = 128 }, batch = { micro = 1 },
    lora = { rank = 8, targets = { "q_proj" } },
    memory = { limit_gib = 3.2 },
}
