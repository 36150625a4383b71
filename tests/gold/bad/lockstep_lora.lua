-- args: -d graph
return extend(use "dreamprm_tiny", {
    lora = { rank = 8, targets = { "all-linear" } },
    prm = { hypergradient = "lockstep" },
})
