-- args: -d graph
return extend(use "dreamprm_tiny", {
    prm = { hypergradient = "lockstep" },
    memory = { ffn_rows = 32 },
})
