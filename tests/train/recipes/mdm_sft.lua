-- Masked diffusion of answers, over all their tokens; settings of tests/oracle/mdm.py.
return extend(use "mdm_llada", {
    optim = { decay_rule = "hf5" },
    diffusion = { mode = "sft", norm = "tokens", random_length = 0 },
    run = { seed = 7, val_draws = 3, val_noise = "spread" },
})
