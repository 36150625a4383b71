-- A very small Llama over bytes, 107,840 parameters: 256 byte values and end of text (256), 7 rows to spare.
return {
    family = "llama",
    layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 128,
    vocab = 264, positions = 128,
    norm_eps = 1e-5,
    bos = 256, eos = 256,
}
