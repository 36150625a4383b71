-- Preference optimisation of Llama-3.2-1B, all weights, on two H100.
-- Planned: 29.3 GiB of 77.5 GiB a card.
return {
    about = "Llama-3.2-1B, DPO of all weights in bf16 on two H100, 8 pairs a step",
    target = "sm_90",
    gpus = 2,
    precision = "bf16",
    objective = "dpo",
    data = { kind = "pairs" },
    model = use "models/llama3.2_1b",
    seq = { max = 1024 },
    batch = { global = 8 },
    optim = { decay_rule = "all" },
    run = { eval_every = 5, eval_batches = 5 },
}
