-- args: -d graph
return extend(use "dreamprm_tiny", {
    lora = { rank = 0 },
    prm = { hypergradient = "lockstep" },
    kernels = { last_layer = "read" },
})
