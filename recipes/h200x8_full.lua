-- Qwen2.5-7B, all weights, on eight H200: all weights and four sequences on each, an eighth of the moments and
-- remainders.
-- Planned: 57.1 GiB of 137.5 GiB a card, 119.1 GiB with memory.zero=0; it also fits eight of 80 GB (card=h100).
-- memory.recompute=none needs 121.4 GiB and does less work.
return extend(use "h200x1_qwen2.5_7b_full", {
    about = "Qwen2.5-7B, full training in bf16 on eight H200, optimizer states divided",
    gpus = 8,
    batch = { micro = 4, accum = 1 },
    memory = { zero = 1, recompute = "block" },
})
