-- Adapters with a trained score head and a step mark that the base lacks, whose row they learn.
return extend(use "prm_none", {
    model = { vocab = 265 },
    lora = { rank = 4, alpha = 8, targets = { "q_proj", "v_proj" } },
    prm = { weights = "instance", records = 24, hypergradient = "dot", new_mark = true, train_head = true,
            system = "" },
    run = { meta_lr = 0.1, meta_clip = 1.0 },
})
