-- Masked diffusion: losses over the hidden tokens; settings of tests/oracle/mdm.py.
return extend(use "mdm_llada", {
    diffusion = { norm = "masked", random_length = 0, mask = -1 },
    run = { lr = 5e-3, seed = 42, val_draws = 1 },
})
