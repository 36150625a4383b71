-- qwen2_lora with dropout in front of the adapters, and a seed of more than 32 bits.
return extend(use "qwen2_lora", {
    lora = { dropout = 0.25 },
    run = { seed = 12884901893 },
})
