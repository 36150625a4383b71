-- Partition, account, modules and scratch are those of a place: `gen config --cluster NAME` writes yours.
return {
    about = "Slurm, two nodes of four A100 of 80 GB on NVLink, InfiniBand between them",
    launcher = "slurm",
    card = "a100",
    nodes = 2,
    gpus_per_node = 4,
    link = "nvlink",
    network = "infiniband",
    interface = "ib0",
    partition = "gpu",
    time = "24:00:00",
    cpus_per_task = 8,
    nccl = { "NCCL_IB_HCA=mlx5" },
}
