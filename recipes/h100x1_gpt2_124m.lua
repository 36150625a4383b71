-- GPT-2 124M, all weights, on one H100 (80 GB): 64 sequences a micro-batch, 0.5 M tokens a step.
-- Planned: 21.4 GiB of 77.5 GiB a card.
return {
    about = "GPT-2 124M, full training in bf16 on one H100",
    target = "sm_90",
    precision = "bf16",
    model = use "models/gpt2_124m",
    seq = { max = 1024 },
    batch = { micro = 64, accum = 8 },
    run = {
        steps = 20000,
        lr = 6e-4, schedule = "cosine", warmup = 700,
        weight_decay = 0.1, beta2 = 0.95,
    },
}
