-- DreamPRM of Llama-2-7b, which has neither a score head nor a step mark: both are added and trained with the adapters,
-- the mark as one more row of the table, token 32000.
-- Planned: 14.1 GiB of 77.5 GiB a card.
return {
    about = "Llama-2-7b, DreamPRM: adapters, a score head and a step mark of its own, in bf16 on two H100",
    target = "sm_90",
    gpus = 2,
    precision = "bf16",
    objective = "prm",
    data = { kind = "steps" },
    model = use "models/dreamprm_llama2_7b",
    seq = { max = 2048 },
    batch = { micro = 1 },
    prm = { new_mark = true, train_head = true },
    lora = { rank = 16, alpha = 32, dropout = 0.05, targets = { "all-linear" } },
    memory = { recompute = "block" },
    optim = { decay_rule = "all" },
}
