-- Qwen2.5-7B, all weights, on one H100 of 80 GB: AdamW's moments are in 8 bit, those of the embedding in fp32.
-- Planned: 76.8 GiB of 77.5 GiB a card. With batch.accum=1 optim.when=backward run.clip=0 50.5 GiB.
return extend(use "h200x1_qwen2.5_7b_full", {
    about = "Qwen2.5-7B, full training in bf16 on one H100, moments in 8 bit",
    memory = { limit_gib = 79, recompute = "block" },
    optim = { moments = "8bit" },
})
