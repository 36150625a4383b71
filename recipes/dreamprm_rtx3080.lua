-- DreamPRM of Qwen2.5-Math-PRM-7B by adapters on one card of 10 GB: the frozen matrices in NF4, the embedding in the
-- host's memory.
-- Planned: 7.3 GiB of 8.6 GiB, and 1.0 GiB of pinned host memory. Other settings as in dreamprm.
return extend(use "dreamprm_q4", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: adapters over a base in NF4, weights of records, one RTX 3080",
    batch = { micro = 2 },
    memory = { limit_gib = 9.6 },
})
