-- args: -d graph
return {
    target = "sm_90",
    model = { family = "qwen2", layers = 2, hidden = 64, heads = 4, ffn = 96, vocab = 257, tied = true },
    seq = { max = 32 }, batch = { micro = 2 },
    lora = { rank = 4 },
    memory = { embedding = "host" },
}
