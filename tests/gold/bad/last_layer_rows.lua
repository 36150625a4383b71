-- args: -d graph
return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    kernels = { last_layer = "read" },
}
