-- DreamPRM of Qwen2.5-Math-PRM-7B by adapters on one card of 8 GB: the frozen matrices in NF4, the embedding in the
-- host's memory.
-- Planned: 5.6 GiB of 6.7 GiB, and 1.0 GiB of pinned host memory. On 10 GB: card=rtx3080 batch.micro=2, 7.3 GiB of
-- 8.6 GiB. Other settings as in dreamprm.
return extend(use "dreamprm", {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: adapters over a base in NF4, weights of records, one RTX 3070",
    target = "sm_86",
    lora = { base = "nf4" },
    memory = { embedding = "host", limit_gib = 7.7 },
})
