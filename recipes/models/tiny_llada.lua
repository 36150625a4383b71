-- LLaDA in small, over the 69 characters of tiny Shakespeare: 674,176 parameters. Other texts have others:
-- gen pack --tokenizer char prints the model.vocab=N of its own.
return extend(use "models/llada_8b", {
    layers = 4, hidden = 128, heads = 4, ffn = 256,
    vocab = 69, positions = 256,
    bos = 1, eos = 2,
})
