-- DreamPRM of Qwen2.5-Math-PRM-7B, all weights, on one H200 (batch.accum=4), gpus=8 batch.accum=8 on eight.
-- Planned: 107.5 GiB of 137.5 GiB a card: bf16 weights and remainders, fp32 moments and gradients are 105.5; the upper
-- level takes 0.4 GiB. It does not fit cards of 80 GiB or less; dreamprm_full_40gb does.
return {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: all weights in bf16",
    target = "sm_90",
    precision = "bf16",
    objective = "prm",
    data = { kind = "steps" },
    model = use "models/qwen2.5_math_prm_7b",
    seq = { max = 4096 },
    batch = { micro = 1 },
    memory = { limit_gib = 139, recompute = "block" },
    optim = { decay_rule = "all" },
}
