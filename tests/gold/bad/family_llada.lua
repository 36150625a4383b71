return {
    target = "cpu",
    objective = "mlm",
    data = { kind = "rows" },
    model = { family = "llada", layers = 2, hidden = 16, heads = 4, kv_heads = 2, ffn = 32, vocab = 50,
              rope_scaling = "llama3", tied = true, pad = 3 },
    seq = { max = 8 },
    batch = { micro = 2 },
    diffusion = { mask = 49 },
}
