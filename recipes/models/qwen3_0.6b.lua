-- Qwen3, 0.6B parameters (Qwen/Qwen3-0.6B).
return {
    family = "qwen3",
    layers = 28, hidden = 1024, heads = 16, kv_heads = 8, head_dim = 128, ffn = 3072,
    vocab = 151936, positions = 40960,
    norm_eps = 1e-6, rope_theta = 1000000.0,
    tied = true,
    bos = 151643, eos = 151645,
}
