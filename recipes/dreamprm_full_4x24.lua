-- DreamPRM of Qwen2.5-Math-PRM-7B, all weights, on four RTX 4090: a quarter of the weights, gradients, remainders and
-- moments on each, moments in 8 bit, the direction of the upper level a layer at a time.
-- Planned: 21.5 GiB of 22.5 GiB a card. Four L4: card=l4 seq.max=3072, 21.0 GiB. 18.2 GiB with optim.master=none.
return extend(use "dreamprm_full", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: all weights in bf16, divided over four RTX 4090",
    target = "sm_89",
    gpus = 4,
    batch = { accum = 1 },
    memory = { zero = 3, limit_gib = 23.5 },
    optim = { moments = "8bit" },
    prm = { hypergradient = "lockstep" },
})
