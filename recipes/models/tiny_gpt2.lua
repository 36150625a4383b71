-- GPT-2 in small, over bytes: 256 byte values and end of text (256).
return {
    family = "gpt2",
    layers = 4, hidden = 128, heads = 4,
    vocab = 257, positions = 128,
    norm_eps = 1e-5, tied = true,
    bos = 256, eos = 256,
}
