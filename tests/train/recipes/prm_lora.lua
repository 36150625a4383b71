-- On adapters, by differences; a weight for each of three domains, in every second update from the fifth on.
return extend(use "prm_none", {
    lora = { rank = 4, alpha = 8, targets = { "all-linear" } },
    prm = { weights = "domain", domains = 3, hypergradient = "fd", aggregate = "mean", unroll = 2 },
    run = { lr = 1e-2, meta_lr = 0.1, meta_clip = 1e-3, cold_start = 4 },
})
