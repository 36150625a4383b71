-- Mistral 7B v0.3 (mistralai/Mistral-7B-v0.3): no window.
return {
    family = "mistral",
    layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336,
    vocab = 32768, positions = 32768,
    norm_eps = 1e-5, rope_theta = 1000000.0,
    tied = false,
    bos = 1, eos = 2,
}
