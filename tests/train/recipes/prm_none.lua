-- A process reward model; settings of tests/oracle/prm.py.
return extend(use "dreamprm_tiny", {
    seq = { max = 32 },
    batch = { micro = 2, accum = 2 },
    prm = { weights = "none" },
    run = { steps = 20, lr = 3e-3, log_every = 1, eval_every = 20, eval_from = 0, seed = 42 },
})
