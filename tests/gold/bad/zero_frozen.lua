-- args: -d graph
return {
    target = "cpu",
    gpus = 2,
    model = extend(use "models/tiny_gpt2", { ffn = 1024 }),
    seq = { max = 64 },
    batch = { micro = 2 },
    lora = { rank = 8, targets = { "all-linear" } },
    memory = { zero = 2 },
}
