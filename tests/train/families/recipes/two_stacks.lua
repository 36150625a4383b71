-- Two stacks of the tests' families: see ../two_stacks.c.
return extend(use "base", {
    model = { family = "norm_then_residual" },
    run = { seed = 24, clip = 1.5 },
})
