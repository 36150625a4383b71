-- Gemma: norms of 1 + w, scaled rows of tokens, gated GELU, heads of another width; all weights.
return extend(use "base", {
    model = { family = "gemma", hidden = 48, kv_heads = 1, head_dim = 16, ffn = 80 },
    run = { seed = 8, clip = 1.5 },
})
