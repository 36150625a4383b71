-- Qwen2.5, 7B parameters (Qwen/Qwen2.5-7B).
return extend(use "models/qwen2.5_0.5b", {
    layers = 28, hidden = 3584, heads = 28, kv_heads = 4, ffn = 18944,
    vocab = 152064, positions = 131072,
    tied = false,
})
