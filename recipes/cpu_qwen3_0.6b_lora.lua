-- LoRA on Qwen3-0.6B in bf16; start it with --init-from the folder of the downloaded model.
return {
    about = "Qwen3-0.6B, LoRA rank 16 on all linear layers, bf16",
    target = "cpu",
    precision = "bf16",
    model = use "models/qwen3_0.6b",
    seq = { max = 512 },
    batch = { micro = 1 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    run = { steps = 100, lr = 2e-4, warmup = 10 },
}
