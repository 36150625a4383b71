-- Qwen2.5, 0.5B parameters (Qwen/Qwen2.5-0.5B).
return {
    family = "qwen2",
    layers = 24, hidden = 896, heads = 14, kv_heads = 2, ffn = 4864,
    vocab = 151936, positions = 32768,
    norm_eps = 1e-6, rope_theta = 1000000.0,
    tied = true,
    bos = 151643, eos = 151643,
}
