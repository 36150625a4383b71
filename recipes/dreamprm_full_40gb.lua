-- DreamPRM of Qwen2.5-Math-PRM-7B, all weights, on one A100 of 40 GB: bf16 weights that are rounded stochastically,
-- moments in 8 bit, gradients and the direction of the upper level a layer at a time.
-- Planned: 33.0 GiB of 37.8 GiB a card. 46.1 GiB with optim.master=remainder.
return extend(use "dreamprm_full", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: all weights in bf16 with small states, one A100 of 40 GB",
    target = "sm_80",
    memory = { limit_gib = 39.3 },
    batch = { accum = 1 },
    optim = { master = "none", moments = "8bit", when = "backward" },
    prm = { hypergradient = "lockstep" },
    run = { clip = 0 },
})
