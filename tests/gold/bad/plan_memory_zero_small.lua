-- args: -d plan
-- Two ranks with nothing large enough to be divided, of a family that takes no adapters: neither is tried.
return extend(use "mlm_2gpu_standard", { memory = { limit_gib = 0.2 } })
