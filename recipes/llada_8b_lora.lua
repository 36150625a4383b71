-- LoRA on LLaDA-8B, masked diffusion, on two GPUs of 24 GB or more: a text of 4096 tokens on each. --init-from takes
-- the folder of the downloaded model.
-- Planned: 18.3 GiB of 77.5 GiB a card; for an RTX 4090 card=rtx4090.
return extend(use "llada_8b", {
    about = "LLaDA-8B, LoRA rank 16 on all linear layers in fp16 on two GPUs: masked diffusion",
    lora = { rank = 16, alpha = 32, targets = { "all-linear" } },
    memory = { limit_gib = 79, zero = 0 },
    run = { lr = 1e-4 },
})
