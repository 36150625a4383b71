return extend(use "dpo_tiny", {
    gpus = 2,
    comm = { order = "canonical" },
})
