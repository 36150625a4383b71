-- DreamPRM of Qwen2.5-Math-PRM-7B by adapters on two cards of 24 GB; blocks keep what fits.
-- Planned: 22.2 GiB of 22.5 GiB a card. Other settings as in dreamprm.
return extend(use "dreamprm", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: adapters, weights of records, in bf16, two RTX 4090",
    target = "sm_89",
    gpus = 2,
    batch = { micro = 2 },
    memory = { limit_gib = 23.5, recompute = "auto" },
})
