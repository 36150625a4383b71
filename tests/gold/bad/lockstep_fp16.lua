-- args: -d graph
return extend(use "dreamprm_tiny", {
    target = "sm_90", precision = "fp16",
    prm = { hypergradient = "lockstep" },
})
