-- Qwen3: norms of the heads of q and k, heads apart from hidden; tied embeddings, a token of padding; all weights.
return extend(use "base", {
    model = {
        family = "qwen3", hidden = 48, kv_heads = 2, head_dim = 16, ffn = 80,
        norm_eps = 1e-6, rope_theta = 1e6, tied = true, pad = 32,
    },
    run = { seed = 31, clip = 1.5 },
})
