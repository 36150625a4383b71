-- DreamPRM of Qwen2.5-Math-PRM-7B by adapters on one card of 12 GB: the frozen matrices in NF4, the embedding in the
-- host's memory; blocks keep what else fits.
-- Planned: 10.3 GiB of 10.6 GiB, and 1.0 GiB of pinned host memory. Other settings as in dreamprm.
return extend(use "dreamprm_q4", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: adapters over a base in NF4, weights of records, one RTX 4070",
    target = "sm_89",
    batch = { micro = 2 },
    memory = { limit_gib = 11.6, recompute = "auto" },
})
