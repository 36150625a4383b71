-- args: -d graph
return {
    target = "cpu",
    model = { family = "llama", layers = 2, hidden = 36, heads = 2, ffn = 40, vocab = 257 },
    seq = { max = 32 }, batch = { micro = 2 },
    lora = { rank = 4, base = "nf4" },
}
