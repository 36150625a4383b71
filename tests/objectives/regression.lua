-- The objective of the tests: floats to one number a place.
return {
    target = "cpu",
    objective = "regression",
    model = { family = "gpt2", layers = 2, hidden = 32, heads = 4, features = 5, tied = false },
    seq = { max = 8 },
    batch = { micro = 2, accum = 2 },
    run = {
        steps = 10, schedule = "linear", warmup = 3, weight_decay = 0.1, clip = 8.0,
        seed = 9, log_every = 1, save_every = "epoch",
    },
}
