-- LLaDA in small, over the 69 characters of tiny Shakespeare: 674,176 parameters.
-- Other texts have others: gen pack --tokenizer char prints the model.vocab=N of its own. Places are told apart within
-- a few hundred characters, and weights begin as large as so narrow a model wants: with 500000 and 0.02 it is slow.
return extend(use "models/llada_8b", {
    layers = 4, hidden = 128, heads = 4, ffn = 256,
    vocab = 69, positions = 256,
    rope_theta = 100.0, init_std = 0.06,
    bos = 1, eos = 2,
})
