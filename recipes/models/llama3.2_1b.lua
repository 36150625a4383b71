-- Llama 3.2, 1B parameters (meta-llama/Llama-3.2-1B).
return {
    family = "llama",
    layers = 16, hidden = 2048, heads = 32, kv_heads = 8, head_dim = 64, ffn = 8192,
    vocab = 128256, positions = 131072,
    norm_eps = 1e-5,
    rope_theta = 500000.0,
    rope_scaling = "llama3",
    rope_factor = 32.0, rope_low_freq_factor = 1.0, rope_high_freq_factor = 4.0,
    rope_original_positions = 8192,
    tied = true,
    bos = 128000, eos = 128001,
}
