-- The same on adapters.
return extend(use "dpo_sum", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    run = { lr = 3e-3 },
})
