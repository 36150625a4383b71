-- The same model on documents side by side in a row, each for itself.
return extend(use "llama_tiny", {
    data = { kind = "bfd" },
    run = { seed = 13, clip = 1.0 },
})
