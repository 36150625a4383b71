-- Llama 3.1, 70B parameters (meta-llama/Llama-3.1-70B).
return extend(use "models/llama3.1_8b", {
    layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672,
})
