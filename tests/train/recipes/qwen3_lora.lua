-- LoRA on all linear layers of qwen3_tiny.
return extend(use "qwen3_tiny", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    run = { seed = 32, lr = 1e-2, clip = 1.0 },
})
