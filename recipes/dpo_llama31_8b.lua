-- Preference optimisation of Llama-3.1-8B, all weights, on two H200; gpus=4 for four, gpus=8 batch.accum=1 for eight.
-- Planned: 84.9 GiB of 137.5 GiB a card: bf16 weights, fp32 gradients, and half of the remainders and moments are
-- 82.3 GiB. 122.3 GiB with memory.zero=0. Four cards of 80 GB: gpus=4 card=h100, 65.6 GiB, 45.2 with memory.zero=2,
-- 35.7 with 3. Eight: gpus=8 batch.accum=1 card=h100, 56.3 GiB, 32.1 with memory.zero=2, 20.8 with 3.
-- As the guide's later version has it: dpo.logp=sum dpo.kl=none dpo.beta=0.3 batch.global=16 batch.accum=4
-- dpo.reward_beta=true, and --lr 5e-7 --weight-decay 0.01 --schedule linear --warmup 0.1 --stop-margin 0.
return {
    about = "Llama-3.1-8B, DPO of all weights in bf16 on two H200, 8 pairs a step",
    target = "sm_90",
    gpus = 2,
    precision = "bf16",
    objective = "dpo",
    data = { kind = "pairs" },
    model = use "models/llama3.1_8b",
    seq = { max = 1024 },
    batch = { global = 8, accum = 2 },
    memory = { limit_gib = 139, recompute = "block", zero = 1 },
    optim = { decay_rule = "all" },
    run = { eval_every = 5, eval_batches = 5 },
}
