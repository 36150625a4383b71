-- args: -d graph
return extend(use "dreamprm_tiny", {
    comm = { order = "canonical" },
    prm = { hypergradient = "lockstep" },
})
