-- Llama 2, 7B parameters (meta-llama/Llama-2-7b-hf).
return {
    family = "llama",
    layers = 32, hidden = 4096, heads = 32, ffn = 11008,
    vocab = 32000, positions = 4096,
    norm_eps = 1e-5,
    bos = 1, eos = 2,
}
