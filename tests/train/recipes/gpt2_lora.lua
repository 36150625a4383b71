-- LoRA on GPT-2's linear layers, whose files hold the transposed weights.
return extend(use "gpt2_tiny", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    run = { lr = 1e-2 },
})
