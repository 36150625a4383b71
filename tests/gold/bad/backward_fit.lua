-- args: -d plan
-- What is offered has neither a second micro-batch, fp16, divided states nor adapters.
return {
    target = "sm_90",
    gpus = 2,
    precision = "bf16",
    model = use "models/qwen2.5_1.5b",
    seq = { max = 2048 },
    batch = { micro = 16 },
    memory = { limit_gib = 40 },
    optim = { when = "backward" },
    run = { clip = 0 },
}
