-- Gemma 3: norms around attention and feed-forward part and of heads, two rotary bases by layer; all weights.
return extend(use "base", {
    model = {
        family = "gemma3_text", layers = 3, hidden = 48, kv_heads = 2, head_dim = 16, ffn = 80, query_scalar = 24,
        rope_theta = 1e6, window = 32, full_every = 2,
    },
    run = { seed = 41, clip = 1.5 },
})
