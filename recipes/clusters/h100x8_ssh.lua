-- Two machines without a scheduler: run.sh is started on each, by ssh or by hand, and knows which of them it is.
return {
    about = "two machines of eight H100 on NVLink, reached by ssh, InfiniBand between them",
    launcher = "run.sh",
    card = "h100",
    nodes = 2,
    gpus_per_node = 8,
    hosts = { "node1", "node2" },
    link = "nvlink",
    network = "infiniband",
}
