-- Qwen2.5-7B, all weights, on eight H200: all weights and four sequences on each, an eighth of the gradients, moments
-- and remainders.
-- Planned: 34.0 GiB of 137.5 GiB a card, 57.1 GiB with memory.zero=1, 119.1 GiB with memory.zero=0.
-- memory.recompute=none needs 98.6 GiB and does less work. With batch.accum above 1, memory.zero=1 sends less.
return extend(use "h200x1_qwen2.5_7b_full", {
    about = "Qwen2.5-7B, full training in bf16 on eight H200, gradients and states divided",
    gpus = 8,
    batch = { micro = 4, accum = 1 },
    memory = { zero = 2, recompute = "block" },
})
