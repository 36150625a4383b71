-- DreamPRM of Qwen2.5-Math-PRM-7B by adapters on one card of 24 GB: the embedding in the host's memory; blocks keep
-- what else fits.
-- Planned: 19.6 GiB of 22.5 GiB, and 1.0 GiB of pinned host memory. Other settings as in dreamprm. batch.micro=1
-- batch.accum=4: 22.4 GiB, and faster by gen's estimate.
return extend(use "dreamprm", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: adapters, weights of records, in bf16, one RTX 4090",
    target = "sm_89",
    batch = { micro = 4 },
    memory = { limit_gib = 23.5, embedding = "host", recompute = "auto" },
})
