-- A family of the tests: adapters in and after the blocks.
return extend(use "base", {
    model = { family = "post_norm" },
    lora = { rank = 4, alpha = 8, targets = { "all-linear" }, dropout = 0.25 },
    run = { seed = 23, lr = 1e-2, clip = 1.0 },
})
