-- Llama 3 with scaled rotary frequencies and grouped heads, all weights.
return extend(use "base", {
    model = {
        family = "llama", kv_heads = 2, head_dim = 16, ffn = 96, norm_eps = 1e-5,
        rope_scaling = "llama3", rope_original_positions = 16,
    },
    run = { seed = 7, clip = 0.5 },
})
