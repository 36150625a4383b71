-- Mistral: heads apart from hidden, linear scaling of rotary frequencies; its folder has a window as long as sequences.
return extend(use "base", {
    model = {
        family = "mistral", hidden = 48, heads = 2, kv_heads = 1, head_dim = 16, ffn = 80,
        norm_eps = 1e-5, rope_scaling = "linear", rope_factor = 4.0,
    },
    run = { seed = 33, clip = 1.0 },
})
