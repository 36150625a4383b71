-- Preference optimisation of Llama-3.1-8B by adapters on two H100.
-- Planned: 51.5 GiB of 77.5 GiB a card; on one of 24 GB 16.8 of 22.5: gpus=1 target=sm_89 batch.accum=8
-- memory.recompute=block.
return {
    about = "Llama-3.1-8B, DPO of LoRA adapters in bf16 on two H100, 8 pairs a step",
    target = "sm_90",
    gpus = 2,
    precision = "bf16",
    objective = "dpo",
    data = { kind = "pairs" },
    model = use "models/llama3.1_8b",
    seq = { max = 1024 },
    batch = { global = 8 },
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    optim = { decay_rule = "all" },
    run = { eval_every = 5, eval_batches = 5 },
}
