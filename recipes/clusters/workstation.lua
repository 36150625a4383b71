-- Two RTX 4090 in one machine: no launcher, no network.
return {
    about = "one machine with two RTX 4090 on PCIe",
    card = "rtx4090",
    gpus_per_node = 2,
    link = "pcie",
}
