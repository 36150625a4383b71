-- cpu_tiny.lua on two ranks: two MPI processes, half of the global batch each, and half of the moments of the
-- feed-forward matrices, the only ones of 65,536 elements or more.
-- Planned: 44.5 MiB a rank, 46.7 MiB with memory.zero=0.
return extend(use "cpu_tiny", {
    about = "cpu_tiny on two ranks",
    gpus = 2,
    batch = { micro = 4 },
    memory = { zero = 1 },
})
