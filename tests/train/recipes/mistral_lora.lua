-- LoRA on all linear layers of mistral_tiny.
return extend(use "mistral_tiny", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    run = { seed = 34, lr = 1e-2, clip = 1.0 },
})
