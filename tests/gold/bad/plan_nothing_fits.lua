-- args: -d plan
return {
    target = "cpu",
    memory = { limit_gib = 0.6 },
    objective = "lm",
    model = use "models/gpt2_124m",
    seq = { max = 64 },
    batch = { micro = 1 },
}
