return {
    target = "cpu",
    model = extend(use "models/tiny_llama", { window = 32, rope_local_theta = 1e4, query_scalar = 8 }),
    seq = { max = 64 },
    batch = { micro = 1 },
}
