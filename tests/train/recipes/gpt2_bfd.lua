-- The same model on documents side by side in a row, each for itself.
return extend(use "gpt2_tiny", {
    data = { kind = "bfd" },
    run = { seed = 12, clip = 1.0 },
})
