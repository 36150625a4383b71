-- Gemma 3, 1B parameters, text alone (google/gemma-3-1b-pt).
return {
    family = "gemma3_text",
    layers = 26, hidden = 1152, heads = 4, kv_heads = 1, head_dim = 256, ffn = 6912,
    vocab = 262144, positions = 32768,
    norm_eps = 1e-6,
    rope_theta = 1000000.0, rope_local_theta = 10000.0,
    window = 512, full_every = 6,
    bos = 2, eos = 1,
}
