-- The same model on prompts and completions: padded rows, masked prompts.
return extend(use "llama_tiny", {
    data = { kind = "rows" },
    run = { seed = 11, clip = 1.5 },
})
