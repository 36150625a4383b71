-- Two CPU nodes, a rank a node.
return {
    about = "Slurm, two CPU nodes of 16 cores and 64 GiB, a rank on each",
    launcher = "slurm",
    target = "cpu",
    memory_gib = 64,
    nodes = 2,
    gpus_per_node = 1,
    cpus_per_task = 16,
}
