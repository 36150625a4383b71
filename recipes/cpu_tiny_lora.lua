-- LoRA on the model that cpu_tiny.lua made: only the adapters are trained.
local base = use "cpu_tiny"

return extend(base, {
    about = "LoRA adapters on the model made by cpu_tiny",
    lora = { rank = 8, alpha = 16, targets = { "all-linear" } },
    run = { steps = 200, lr = 3e-3, warmup = 10, weight_decay = 0.0, eval_every = 100 },
})
