-- Prompts of which few tokens are targets: their rows alone go through the head, on both ranks and in two micro-batches.
return {
    name = "few_targets", target = "cpu", gpus = 2, precision = "bf16",
    model = {
        family = "llama", layers = 2, hidden = 32, heads = 4, kv_heads = 2, ffn = 48, vocab = 300,
    },
    data = { kind = "rows" },
    seq = { max = 48 },
    batch = { micro = 2, accum = 2, targets = 34 },
}
