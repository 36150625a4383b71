-- LoRA on Qwen2.5-7B on four A100 (80 GB).
-- Planned: 50.8 GiB of 77.5 GiB a card.
return {
    about = "Qwen2.5-7B, LoRA rank 16 on all linear layers, bf16, four A100",
    target = "sm_80",
    gpus = 4,
    precision = "bf16",
    model = use "models/qwen2.5_7b",
    seq = { max = 2048 },
    batch = { micro = 4 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    run = { steps = 1000, lr = 2e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
