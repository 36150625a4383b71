-- LoRA on Qwen2.5-7B on one H200; --init-from takes the folder of the downloaded model.
-- Planned: 84.9 GiB of 137.5 GiB a card.
return {
    about = "Qwen2.5-7B, LoRA rank 16 on all linear layers, bf16, one H200",
    target = "sm_90",
    precision = "bf16",
    model = use "models/qwen2.5_7b",
    seq = { max = 2048 },
    batch = { micro = 8 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    memory = { limit_gib = 139 },
    run = { steps = 1000, lr = 2e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
