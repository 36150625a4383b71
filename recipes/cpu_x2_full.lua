-- cpu_tiny.lua on two ranks: two MPI processes, half of the global batch each.
return extend(use "cpu_tiny", {
    about = "cpu_tiny on two ranks",
    gpus = 2,
    batch = { micro = 4 },
})
