-- LoRA on Llama 3.1 70B in bf16 on eight H100 of 80 GB, an eighth of the weights on each; --init-from takes the folder
-- of the downloaded model.
-- Planned: 28.7 GiB of 77.5 GiB a card; 139.9 GiB with memory.zero=1. batch.micro=2 batch.accum=1 needs 33.9 GiB and
-- gathers the weights half as often. Four cards: gpus=4 batch.accum=4, 45.6 GiB.
return {
    about = "Llama 3.1 70B, LoRA rank 16 on all linear layers, bf16, weights divided over eight H100",
    target = "sm_90",
    gpus = 8,
    precision = "bf16",
    model = use "models/llama3.1_70b",
    seq = { max = 4096 },
    batch = { micro = 1, accum = 2 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    memory = { zero = 3, recompute = "block", limit_gib = 79 },
    run = { steps = 1000, lr = 1e-4, schedule = "cosine", warmup = 30, weight_decay = 0.0 },
}
