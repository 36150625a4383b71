local r = use "dreamprm_tiny"
r.prm = { hypergradient = "dot" }
r.prm.hyper = "fd"
return r
