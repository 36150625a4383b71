return {
    target = "cpu",
    precision = "fp32",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 2 },
    optim = "adamw_8bit",
    data = "train.safetensors",
    lora = true,
}
