-- ad_compressed.lua on eight GPUs in fp16.
-- Planned: 223.4 MiB of 77.5 GiB a card.
return extend(use "ad_compressed", {
    about = "algorithm distillation on darkroom: compressed context, fp16, eight GPUs, 2048 sequences a step",
    gpus = 8,
    precision = "fp16",
    batch = { micro = 128, accum = 2 },
    run = { num_workers = 4 },
})
