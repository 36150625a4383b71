-- h100x1_gpt2_124m.lua on one H200 (141 GB), for measurement: one micro-batch a step.
-- Planned: 21.4 GiB of 137.5 GiB a card.
return extend(use "h100x1_gpt2_124m", {
    about = "GPT-2 124M, full training in bf16 on one H200",
    batch = { accum = 1 },
    memory = { limit_gib = 139 },
})
