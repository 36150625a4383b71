-- args: -d graph
return extend(use "dreamprm_tiny", {
    batch = { accum = 2 },
    prm = { hypergradient = "lockstep" },
})
