-- LLaDA-8B (GSAI-ML/LLaDA-8B-Base): 8,015,581,184 parameters.
-- Token 126081 ends a text and is the padding; token 126336 is the mask.
return {
    family = "llada",
    layers = 32, hidden = 4096, heads = 32, ffn = 12288,
    vocab = 126464, positions = 4096,
    norm_eps = 1e-5,
    rope_theta = 500000.0,
    bos = 126080, eos = 126081,
}
