-- args: -d plan
return {
    target = "cpu",
    objective = "lm",
    model = use "models/tiny_gpt2",
    seq = { max = 128 },
    batch = { micro = 4 },
    memory = { loss_rows = 100 },
}
