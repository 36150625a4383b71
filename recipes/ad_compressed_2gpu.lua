-- ad_compressed.lua on two GPUs in fp16.
-- Planned: 785.1 MiB of 77.5 GiB a card.
return extend(use "ad_compressed", {
    about = "algorithm distillation on darkroom: compressed context, fp16, two GPUs, 1024 sequences a step",
    gpus = 2,
    precision = "fp16",
    batch = { micro = 512 },
    run = { num_workers = 4 },
})
