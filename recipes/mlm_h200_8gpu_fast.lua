-- The smallest MicroBERT on eight H200, 512 texts a step, 3 epochs.
return extend(use "mlm_1gpu_standard", {
    about = "MLM over words: MicroBERT 4 layers, 8 wide, bf16, eight H200, 512 texts a step, 500,000 texts",
    gpus = 8,
    batch = { micro = 64 },
    run = { epochs = 3, lr = 5e-5, max_samples = 500000 },
})
