-- Masked diffusion over characters, from scratch: an encoder of 173,290,053 parameters on two H100 or H200, texts of
-- 4096 characters. The mask is the last character of the vocabulary; other texts have other characters:
-- gen recipes/llada_shakespeare.lua model.vocab=N, as gen pack --tokenizer char says.
-- Planned: 12.1 GiB of 77.5 GiB a card.
return {
    about = "173 M parameters over characters, from scratch, fp16 on two GPUs: masked diffusion",
    target = "sm_90",
    gpus = 2,
    precision = "fp16",
    objective = "masked_diffusion",
    data = { kind = "rows" },
    model = use "models/encoder_24x768",
    seq = { max = 4096 },
    batch = { micro = 4 },
    optim = { decay_rule = "all" },
    run = { epochs = 10, lr = 1e-4, eval_every = "epoch", save_every = "epoch" },
}
