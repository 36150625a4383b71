-- The smallest LLaDA: 674,176 parameters over the 69 characters of tiny Shakespeare, which the first start counts. For
-- texts with other characters: gen recipes/llada_tiny.lua model.vocab=N, as the message of that start says.
return {
    about = "very small LLaDA over characters, from scratch: masked diffusion",
    target = "cpu",
    precision = "fp32",
    objective = "masked_diffusion",
    data = { kind = "rows" },
    model = use "models/tiny_llada",
    seq = { max = 256 },
    batch = { micro = 16 },
    optim = { decay_rule = "all" },
    run = {
        epochs = 5, lr = 8e-4, eval_every = "epoch", save_every = "epoch", val_noise = "spread,random",
        tokenizer = "char", eval_share = 0.1,
    },
}
