-- LoRA on Gemma 3 of 1B parameters in bf16; start it with --init-from the folder of the downloaded model.
return {
    about = "Gemma-3-1B, LoRA rank 16 on all linear layers, bf16",
    target = "cpu",
    precision = "bf16",
    model = use "models/gemma3_1b",
    seq = { max = 512 },
    batch = { micro = 1 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    run = { steps = 100, lr = 2e-4, warmup = 10 },
}
