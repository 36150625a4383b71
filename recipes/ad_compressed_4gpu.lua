-- ad_compressed.lua on four GPUs in fp16.
-- Planned: 410.5 MiB of 77.5 GiB a card.
return extend(use "ad_compressed", {
    about = "algorithm distillation on darkroom: compressed context, fp16, four GPUs, 1024 sequences a step",
    gpus = 4,
    precision = "fp16",
    batch = { micro = 256 },
    run = { num_workers = 4 },
})
