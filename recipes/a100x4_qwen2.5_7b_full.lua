-- h200x8_full.lua on four A100 of 80 GB: half of the sequences at once, twice.
-- Planned: 46.4 GiB of 77.5 GiB a card, 65.9 GiB with memory.zero=1, which sends less, 37.5 GiB with memory.zero=3.
return extend(use "h200x8_full", {
    about = "Qwen2.5-7B, full training in bf16 on four A100, gradients and states divided",
    target = "sm_80",
    gpus = 4,
    batch = { accum = 2 },
    memory = { limit_gib = 79 },
})
