-- Qwen2.5-1.5B, all weights, on four A100 (80 GB): a whole model and sequences of its own on each.
-- Planned: 40.5 GiB of 77.5 GiB a card.
return {
    about = "Qwen2.5-1.5B, full training in bf16 on four A100, replicated",
    target = "sm_80",
    gpus = 4,
    precision = "bf16",
    model = use "models/qwen2.5_1.5b",
    seq = { max = 2048 },
    batch = { micro = 4, accum = 4 },
    run = {
        steps = 1000,
        lr = 1e-5, schedule = "cosine", warmup = 50,
        weight_decay = 0.1, beta2 = 0.95,
    },
}
