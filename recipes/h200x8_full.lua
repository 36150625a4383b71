-- Qwen2.5-7B, all weights, on eight H200: a whole model and sequences of its own on each.
-- Planned: 133.3 GiB of 137.5 GiB a card.
return extend(use "h200x1_qwen2.5_7b_full", {
    about = "Qwen2.5-7B, full training in bf16 on eight H200, replicated",
    gpus = 8,
})
