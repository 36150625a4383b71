-- QLoRA on all linear layers of qwen2_tiny.
return extend(use "qwen2_tiny", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" }, base = "nf4" },
    run = { seed = 6, lr = 1e-2, clip = 1.0 },
})
