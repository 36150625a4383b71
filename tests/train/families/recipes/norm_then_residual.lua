-- A family of the tests: all weights.
return extend(use "base", {
    model = { family = "norm_then_residual" },
    run = { seed = 22, clip = 1.5 },
})
