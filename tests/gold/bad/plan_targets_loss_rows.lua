-- args: -d plan
return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 128 },
    batch = { micro = 4, targets = 90 },
    memory = { loss_rows = 64 },
}
