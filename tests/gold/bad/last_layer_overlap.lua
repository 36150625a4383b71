-- args: -d graph
return {
    target = "sm_90",
    gpus = 2,
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2, targets = 32 },
    kernels = { last_layer = "read" },
    comm = { overlap = "all" },
}
