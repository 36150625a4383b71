-- Llama 3.1, 8B parameters (meta-llama/Llama-3.1-8B).
return {
    family = "llama",
    layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336,
    vocab = 128256, positions = 131072,
    norm_eps = 1e-5,
    rope_theta = 500000.0,
    rope_scaling = "llama3",
    rope_factor = 8.0, rope_low_freq_factor = 1.0, rope_high_freq_factor = 4.0,
    rope_original_positions = 8192,
    bos = 128000, eos = 128001,
}
