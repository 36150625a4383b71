-- LoRA on all linear layers of gemma_tiny.
return extend(use "gemma_tiny", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    run = { seed = 9, lr = 1e-2, clip = 0.5 },
})
