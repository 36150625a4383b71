-- args: prm.hypergradient=fd prm.hyper=fd
return {
    target = "cpu",
}
