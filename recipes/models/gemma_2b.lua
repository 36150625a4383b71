-- Gemma, 2B parameters (google/gemma-2b).
return {
    family = "gemma",
    layers = 18, hidden = 2048, heads = 8, kv_heads = 1, head_dim = 256, ffn = 16384,
    vocab = 256000, positions = 8192,
    norm_eps = 1e-6,
    bos = 2, eos = 1,
}
