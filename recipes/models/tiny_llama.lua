-- Llama in small, over bytes: 256 byte values and end of text (256).
return {
    family = "llama",
    layers = 4, hidden = 128, heads = 4, kv_heads = 2, ffn = 352,
    vocab = 257, positions = 128,
    norm_eps = 1e-5,
    bos = 256, eos = 256,
}
