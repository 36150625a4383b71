-- The same with a compressed context: the region before and the present one, and the model says where it ends:
-- 222,024 parameters.
-- Planned: 1.5 GiB of 77.5 GiB a card.
return extend(use "ad", {
    about = "algorithm distillation on darkroom: compressed context, 512 sequences a step, one GPU",
    ad = { context = "compressed" },
})
