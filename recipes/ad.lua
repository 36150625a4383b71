-- Algorithm distillation on darkroom: 221,509 parameters, which predict the next action from 239 transitions.
-- target=cpu for this machine; less memory: see ad.md.
-- Planned: 2.2 GiB of 77.5 GiB a card.
return {
    about = "algorithm distillation on darkroom: plain context, 512 sequences a step, one GPU",
    target = "sm_80",
    precision = "fp32",
    objective = "ad",
    model = use "models/transitions_4x64",
    ad = { context = "plain", n_transit = 240 },
    batch = { micro = 512 },
    optim = { decay_rule = "all" },
}
