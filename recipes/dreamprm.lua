-- DreamPRM of Qwen2.5-Math-PRM-7B by adapters, base and score head frozen; the weights of records by products (dot).
-- Planned: 15.6 GiB of 77.5 GiB, of which the upper level takes less than 0.1; an update of the weights is two plain
-- updates. On one RTX 4090: card=rtx4090 batch.micro=4, 20.7 of 22.5 GiB; on two: card=rtx4090 gpus=2 batch.micro=2
-- batch.accum=2, 17.3 GiB; on four A100: card=a100 gpus=4 batch.micro=8, 27.4 GiB. seq.max=2048: 14.7 GiB,
-- seq.max=1024: 14.3 GiB. As published: --lr 5e-7 --meta-lr 0.01 --steps 10000 and prm.unroll=5, or
-- version 1.5: prm.activation=clip and --lr 5e-5 --meta-lr 5e-3 --cold-start 20000.
return {
    about = "Qwen2.5-Math-PRM-7B, DreamPRM: adapters by labels of steps, weights of records, in bf16",
    target = "sm_90",
    precision = "bf16",
    objective = "prm",
    data = { kind = "steps" },
    model = use "models/qwen2.5_math_prm_7b",
    seq = { max = 4096 },
    batch = { micro = 1 },
    lora = { rank = 16, alpha = 32, dropout = 0.05, targets = { "all-linear" } },
    memory = { recompute = "block" },
    optim = { decay_rule = "all" },
}
