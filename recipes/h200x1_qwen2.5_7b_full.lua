-- Qwen2.5-7B, all weights, on one H200: weights, gradients and AdamW's state are 128 GiB of 139.
-- Planned: 133.3 GiB of 137.5 GiB a card.
local recipe = extend(use "h200x1_qwen2.5_0.5b", {
    about = "Qwen2.5-7B, full training in bf16 on one H200",
    seq = { max = 4096 },
    batch = { micro = 4 },
    memory = { recompute = "block" },
})
recipe.model = use "models/qwen2.5_7b"
return recipe
