-- GPT-2, all weights.
return extend(use "base", {
    model = { family = "gpt2", norm_eps = 1e-5, tied = true },
    run = { seed = 42, clip = 1.0 },
})
