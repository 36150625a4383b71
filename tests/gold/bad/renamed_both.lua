return {
    target = "cpu", objective = "prm",
    prm = {
        hyper = "fd",
        hypergradient = "fd",
    },
}
