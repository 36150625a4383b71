-- ad.lua with a compressed context: the previous region and the current one, whose end the model predicts:
-- 222,024 parameters.
-- Planned: 1.5 GiB of 77.5 GiB a card.
return extend(use "ad", {
    about = "algorithm distillation on darkroom: compressed context, 512 sequences a step, one GPU",
    ad = { context = "compressed" },
})
