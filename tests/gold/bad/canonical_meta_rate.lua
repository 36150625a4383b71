return extend(use "dreamprm_tiny", {
    comm = { order = "canonical" },
    run = { meta_lr_scale = "sqrt" },
})
