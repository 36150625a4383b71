return {
    target = "cpu",
    model = extend(use "models/tiny_llama", { rope_scaling = "llama3", rope_low_freq_factor = 4, rope_high_freq_factor = 1 }),
    seq = { max = 64 },
    batch = { micro = 2 },
}
