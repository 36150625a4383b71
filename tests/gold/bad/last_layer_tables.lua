-- args: -d graph
return {
    target = "cpu",
    model = extend(use "models/gemma3_1b", { layers = 2 }),
    seq = { max = 64 },
    batch = { micro = 2, targets = 32 },
    kernels = { last_layer = "read" },
}
