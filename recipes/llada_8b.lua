-- LLaDA-8B, all weights, masked diffusion, on two H200: a whole model and a text of 4096 tokens on each. --init-from
-- takes the folder of the downloaded model. In fp16 with loss scaling; precision=bf16 needs none and is the safer
-- choice.
-- Planned: 137.0 GiB of 137.5 GiB a card, in bf16 as well, 122.7 GiB in fp32. Of smaller cards llada_8b_lora wants
-- 18.3.
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
    memory = { limit_gib = 139, recompute = "block" },
    optim = { decay_rule = "all" },
    diffusion = { mask = 126336 },
    run = { epochs = 5, lr = 1e-5, eval_every = "epoch", save_every = "epoch" },
}
