-- Qwen3, 8B parameters (Qwen/Qwen3-8B).
return extend(use "models/qwen3_0.6b", {
    layers = 36, hidden = 4096, heads = 32, ffn = 12288,
    tied = false,
})
