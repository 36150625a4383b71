-- h200x8_full.lua on eight H100 of 80 GB.
-- Planned: 34.0 GiB of 77.5 GiB a card, 23.3 GiB with memory.zero=3. memory.recompute=none batch.micro=2 needs 64.5 GiB
-- and does less work.
return extend(use "h200x8_full", {
    about = "Qwen2.5-7B, full training in bf16 on eight H100, gradients and states divided",
    memory = { limit_gib = 79 },
})
