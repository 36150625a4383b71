-- args: -d plan
-- Fits with moments in 8 bit, which are offered before adapters; fp16 takes no optim.master = "none".
return {
    target = "sm_90", precision = "bf16",
    model = { family = "llama", layers = 24, hidden = 2048, heads = 16, ffn = 8192, vocab = 300, tied = false },
    seq = { max = 128 }, batch = { micro = 1 },
    optim = { master = "none" },
    memory = { limit_gib = 18.0 },
}
