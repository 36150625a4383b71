-- args: -d graph
return {
    target = "cpu",
    gpus = 2,
    model = extend(use "models/tiny_gpt2", { ffn = 128 }),
    seq = { max = 64 },
    batch = { micro = 2 },
    memory = { zero = 3 },
}
