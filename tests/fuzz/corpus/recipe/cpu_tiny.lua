-- The first recipe to run: a small GPT-2 over bytes, from scratch, in under a minute on two cores.
return {
    about = "small GPT-2 over bytes from scratch: the first recipe to run",
    target = "cpu",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 128 },
    batch = { micro = 16 },
    run = {
        steps = 300,
        lr = 1e-3, schedule = "cosine", warmup = 30,
        weight_decay = 0.1, beta2 = 0.99,
        log_every = 10, save_every = 100, eval_every = 100,
    },
}
