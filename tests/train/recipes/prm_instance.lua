-- The same, a weight learned for each record.
return extend(use "prm_none", {
    prm = { weights = "instance", records = 24, hypergradient = "dot" },
    run = { meta_lr = 0.1 },
})
