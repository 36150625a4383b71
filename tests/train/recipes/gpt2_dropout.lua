-- gpt2_tiny with dropout in every place, and a seed of more than 32 bits.
return extend(use "gpt2_tiny", {
    model = { dropout = 0.1, attention_dropout = 0.15 },
    run = { seed = 21474836487 },
})
