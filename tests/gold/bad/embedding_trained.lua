-- args: -d graph
return {
    target = "sm_90",
    model = { family = "llama", layers = 2, hidden = 64, heads = 4, ffn = 96, vocab = 257, tied = false },
    seq = { max = 32 }, batch = { micro = 2 },
    memory = { embedding = "host" },
}
