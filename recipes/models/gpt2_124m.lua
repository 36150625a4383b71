-- GPT-2, 124M parameters (openai-community/gpt2).
return {
    family = "gpt2",
    layers = 12, hidden = 768, heads = 12,
    vocab = 50257, positions = 1024,
    norm_eps = 1e-5, tied = true,
    bos = 50256, eos = 50256,
}
