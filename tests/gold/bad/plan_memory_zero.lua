-- args: -d plan
-- GPT-2 124M on two ranks that plan with 2.6 GiB each: divided states suffice, among others.
return {
    target = "cpu",
    gpus = 2,
    memory = { limit_gib = 2.6 },
    objective = "lm",
    model = use "models/gpt2_124m",
    seq = { max = 256 },
    batch = { micro = 2 },
}
