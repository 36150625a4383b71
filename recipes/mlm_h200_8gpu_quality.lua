-- The largest MicroBERT on eight H200, 128 texts a step, 10 epochs.
return extend(use "mlm_1gpu_standard", {
    about = "MLM over words: MicroBERT 8 layers, 24 wide, bf16, eight H200, 128 texts a step, 2,000,000 texts",
    gpus = 8,
    model = use "models/microbert_8x24",
    batch = { micro = 16 },
    run = { epochs = 10, lr = 2e-5, max_samples = 2000000 },
})
