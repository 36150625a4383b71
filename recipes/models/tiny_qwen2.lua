-- Qwen2 in small, over bytes: 256 byte values and end of text (256).
return {
    family = "qwen2",
    layers = 4, hidden = 128, heads = 4, kv_heads = 2, ffn = 352,
    vocab = 257, positions = 128,
    norm_eps = 1e-6, rope_theta = 1000000.0,
    tied = true,
    bos = 256, eos = 256,
}
