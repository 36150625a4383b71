-- LoRA on all linear layers of gemma3_tiny.
return extend(use "gemma3_tiny", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    run = { seed = 42, lr = 1e-2, clip = 0.5 },
})
