-- A family of the tests: all weights.
return extend(use "base", {
    model = { family = "post_norm" },
    run = { seed = 21, clip = 1.0 },
})
