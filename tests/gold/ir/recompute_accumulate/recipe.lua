-- Each block's input is kept and the rest computed again; two micro-batches an update; sums of gradients in fp32.
return {
    name = "recompute_accumulate", target = "cpu", precision = "bf16",
    model = { family = "gpt2", layers = 3, hidden = 32, heads = 2, vocab = 257, positions = 32 },
    seq = { max = 32 },
    batch = { micro = 4, accum = 2 },
    memory = { recompute = "block" },
}
