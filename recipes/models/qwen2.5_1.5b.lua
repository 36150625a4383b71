-- Qwen2.5, 1.5B parameters (Qwen/Qwen2.5-1.5B).
return extend(use "models/qwen2.5_0.5b", {
    layers = 28, hidden = 1536, heads = 12, kv_heads = 2, ffn = 8960,
    positions = 131072,
})
