-- args: -d plan
-- Divided states alone do not fit: with less of something else.
return {
    target = "cpu",
    gpus = 2,
    memory = { limit_gib = 2.15 },
    objective = "lm",
    model = use "models/gpt2_124m",
    seq = { max = 256 },
    batch = { micro = 2 },
}
