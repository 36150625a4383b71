return {
    target = "cpu",
    model = extend(use "models/tiny_qwen2", { attention_bias = false }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
