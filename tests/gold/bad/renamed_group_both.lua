local r = extend(use "llada_tiny", { diffusion = { mask = 4 } })
r.mdm.mask = 5
return r
