return {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 0 },
    batch = { micro = "x" },
    gpus = 0,
    lora = { rank = -1 },
    precision = 8,
}
