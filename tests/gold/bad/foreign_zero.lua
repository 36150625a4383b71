-- args: -d config
-- Words of other trainers for states that are divided over ranks.
return {
    target = "cpu",
    gpus = 2,
    objective = "lm",
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    batch = { micro = 1 },
    zero_stage = 2,
    zero_optimization = { stage = 1 },
    use_distributed_optimizer = true,
    deepspeed = "ds_z3.json",
    fsdp = "full_shard",
    distributed_type = "FSDP",
}
