-- args: -d graph
return {
    target = "cpu",
    gpus = 2,
    model = extend(use "models/tiny_gpt2", { ffn = 1024 }),
    seq = { max = 64 },
    batch = { micro = 2, targets = 32 },
    kernels = { last_layer = "read" },
    memory = { zero = 2 },
}
