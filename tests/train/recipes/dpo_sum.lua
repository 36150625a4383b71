-- The same, sums and nothing else: TRL's DPOTrainer.
return extend(use "dpo_mean", {
    dpo = { logp = "sum", kl = "none" },
    run = { lr = 1e-3 },
})
