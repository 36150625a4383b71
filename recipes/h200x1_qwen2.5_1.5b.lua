-- Qwen2.5-1.5B, all weights, on one H200.
-- Planned: 56.2 GiB of 137.5 GiB a card.
local recipe = extend(use "h200x1_qwen2.5_0.5b", {
    about = "Qwen2.5-1.5B, full training in bf16 on one H200",
    batch = { micro = 16 },
})
recipe.model = use "models/qwen2.5_1.5b"
return recipe
