-- QLoRA on Qwen2.5-7B on one card of 8 GB; --init-from takes the folder of the downloaded model, as it is or quantised
-- by bitsandbytes.
-- Planned: 5.7 GiB of 6.7 GiB a card, and 1.0 GiB of pinned host memory.
return {
    about = "Qwen2.5-7B, LoRA rank 16 on all linear layers over a base in NF4, bf16, one RTX 3070",
    target = "sm_86",
    precision = "bf16",
    model = use "models/qwen2.5_7b",
    seq = { max = 2048 },
    batch = { micro = 1, accum = 16 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" }, base = "nf4" },
    memory = { recompute = "block", embedding = "host", limit_gib = 7.7 },
    run = { steps = 1000, lr = 2e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
