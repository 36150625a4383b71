-- A very small GPT on one H200, for timing: 122,880 tokens a step.
-- Planned: 1.1 GiB of 137.5 GiB a card.
return {
    about = "very small GPT (4 layers, 64 wide) on one H200, for timing",
    target = "sm_90",
    precision = "bf16",
    model = {
        family = "gpt2",
        layers = 4, hidden = 64, heads = 4,
        vocab = 257, positions = 240,
        eos = 256,
    },
    seq = { max = 240 },
    batch = { micro = 512 },
    memory = { limit_gib = 139 },
    run = { steps = 1000, lr = 1e-3, schedule = "cosine", warmup = 30 },
}
