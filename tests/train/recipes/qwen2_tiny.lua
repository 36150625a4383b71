-- Qwen2 with tied embeddings, all weights.
return extend(use "base", {
    model = {
        family = "qwen2", hidden = 48, kv_heads = 2, ffn = 80,
        norm_eps = 1e-6, rope_theta = 1e6, tied = true,
    },
    run = { seed = 0, clip = 1.5 },
})
