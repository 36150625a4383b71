-- Qwen2.5-0.5B, all weights, on one H200; --init-from takes the folder of the downloaded model.
-- Planned: 39.0 GiB of 137.5 GiB a card.
return {
    about = "Qwen2.5-0.5B, full training in bf16 on one H200",
    target = "sm_90",
    precision = "bf16",
    model = use "models/qwen2.5_0.5b",
    seq = { max = 1024 },
    batch = { micro = 32 },
    memory = { limit_gib = 139 },
    run = {
        steps = 1000,
        lr = 1e-5, schedule = "cosine", warmup = 50,
        weight_decay = 0.1, beta2 = 0.95,
    },
}
