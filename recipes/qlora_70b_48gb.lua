-- QLoRA on Llama 3.1 70B on one card of 48 GB; --init-from takes the folder of the downloaded model, as it is or
-- quantised by bitsandbytes.
-- Planned: 43.8 GiB of 46.4 GiB a card. On an L40S: card=l40s memory.embedding=host, 41.8 of 43.4 GiB.
return {
    about = "Llama 3.1 70B, LoRA rank 16 on all linear layers over a base in NF4, bf16, one A6000",
    target = "sm_86",
    precision = "bf16",
    model = use "models/llama3.1_70b",
    seq = { max = 2048 },
    batch = { micro = 1, accum = 16 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" }, base = "nf4" },
    memory = { recompute = "block", limit_gib = 47.4 },
    run = { steps = 1000, lr = 1e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
