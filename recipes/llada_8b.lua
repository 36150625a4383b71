-- LLaDA-8B, all weights, masked diffusion, on two H200: all weights and a text of 4096 tokens on each, half of the
-- moments and master weights. --init-from takes the folder of the downloaded model. In fp16 with loss scaling;
-- precision=bf16 needs none and is the safer choice.
-- Planned: 92.2 GiB of 137.5 GiB a card, 84.7 GiB in bf16, 92.8 GiB in fp32; 137.0 GiB with memory.zero=0.
-- memory.recompute=none needs 108.2 GiB and does less work. Smaller cards: two of 96 GB (card=gh200, rtxpro6000).
-- gpus=4 card=h100: 69.8 GiB, 49.3 with memory.zero=2, 39.9 with 3. gpus=8 card=h100: 58.6, 34.4 with memory.zero=2,
-- 23.1 with 3. llada_8b_lora needs 18.3.
return {
    about = "LLaDA-8B, full training in fp16 on two H200: masked diffusion",
    target = "sm_90",
    gpus = 2,
    precision = "fp16",
    objective = "masked_diffusion",
    data = { kind = "rows" },
    model = use "models/llada_8b",
    seq = { max = 4096 },
    batch = { micro = 1 },
    memory = { limit_gib = 139, recompute = "block", zero = 1 },
    optim = { decay_rule = "all" },
    diffusion = { mask = 126336 },
    run = { epochs = 5, lr = 1e-5, eval_every = "epoch", save_every = "epoch" },
}
