-- Qwen2.5-7B, all weights, on one H200: weights, gradients and AdamW's state are 113.5 GiB of 139.
-- Planned: 132.3 GiB of 137.5 GiB a card; 119.1 GiB with memory.recompute=block batch.micro=4 batch.accum=4, which is
-- slower.
local recipe = extend(use "h200x1_qwen2.5_0.5b", {
    about = "Qwen2.5-7B, full training in bf16 on one H200",
    seq = { max = 4096 },
    batch = { micro = 1, accum = 16 },
})
recipe.model = use "models/qwen2.5_7b"
return recipe
