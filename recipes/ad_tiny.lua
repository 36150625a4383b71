-- The smallest algorithm distillation: 36,456 parameters; 36,197 with ad.context=plain.
return {
    about = "very small algorithm distillation on darkroom, regions compressed, in minutes",
    target = "cpu",
    objective = "ad",
    model = {
        family = "transitions", layers = 2, hidden = 32, heads = 4,
        dropout = 0.1, attention_dropout = 0.1,
    },
    ad = { context = "compressed", n_transit = 240 },
    batch = { micro = 16 },
    optim = { decay_rule = "all" },
}
