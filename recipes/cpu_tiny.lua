-- The first recipe to run: a small GPT-2 over bytes, from scratch, in about a minute on two cores.
return {
    about = "small GPT-2 over bytes from scratch: the first recipe to run",
    target = "cpu",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 128 },
    batch = { micro = 8 },
    run = {
        steps = 1000,
        lr = 3e-3, schedule = "cosine", warmup = 30,
        weight_decay = 0.1, beta2 = 0.99,
        log_every = 50, save_every = 500, eval_every = 500,
    },
}
