-- LLaDA in small, over the 69 characters of tiny Shakespeare: 674,176 parameters.
-- For other texts, gen pack --tokenizer char prints model.vocab=N. The rotary base suits a few hundred characters and
-- init_std this narrow model: with LLaDA's values, 500000 and 0.02, it learns slowly.
return extend(use "models/llada_8b", {
    layers = 4, hidden = 128, heads = 4, ffn = 256,
    vocab = 69, positions = 256,
    rope_theta = 100.0, init_std = 0.06,
    bos = 1, eos = 2,
})
