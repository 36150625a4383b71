-- LoRA on Qwen2.5-1.5B on one RTX 3080 (10 GB).
-- Planned: 7.6 GiB of 8.6 GiB a card.
return {
    about = "Qwen2.5-1.5B, LoRA rank 16 on all linear layers, bf16, one RTX 3080",
    target = "sm_86",
    precision = "bf16",
    model = use "models/qwen2.5_1.5b",
    seq = { max = 1024 },
    batch = { micro = 2, accum = 8 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    memory = { limit_gib = 9.6 },
    run = { steps = 1000, lr = 2e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
