return {
    target = "sm_90",
    gpus = 2,
    model = extend(use "models/tiny_gpt2", { ffn = 1024 }),
    seq = { max = 64 },
    batch = { micro = 2 },
    comm = { order = "canonical", overlap = "all", bucket_mib = 8 },
}
