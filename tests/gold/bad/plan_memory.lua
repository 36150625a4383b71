-- args: -d plan
-- GPT-2 124M, all weights trained, on a machine that plans with 3 GiB: the refusal names recipes that fit.
return {
    target = "cpu",
    memory = { limit_gib = 3.0 },
    objective = "lm",
    model = use "models/gpt2_124m",
    seq = { max = 1024 },
    batch = { micro = 8 },
}
