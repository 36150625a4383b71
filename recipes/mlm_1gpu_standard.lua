-- The smallest MicroBERT on one GPU, 16 texts a step. card=rtx3090 and the like for another card.
-- Planned: 53.7 MiB of 77.5 GiB a card.
return extend(use "mlm_imdb", {
    about = "MLM over words: MicroBERT 4 layers, 8 wide, bf16, one GPU, 16 texts a step, 250,000 texts",
    target = "sm_90",
    precision = "bf16",
    batch = { micro = 16 },
    run = { max_samples = 250000 },
})
