-- LoRA on Qwen2.5-7B on one RTX 4090 (24 GB): 14.2 GiB are weights, so blocks are computed again.
-- Planned: 16.5 GiB of 22.5 GiB a card.
return {
    about = "Qwen2.5-7B, LoRA rank 16 on all linear layers, bf16, one RTX 4090",
    target = "sm_89",
    precision = "bf16",
    model = use "models/qwen2.5_7b",
    seq = { max = 2048 },
    batch = { micro = 2, accum = 8 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    memory = { recompute = "block" },
    run = { steps = 1000, lr = 2e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
