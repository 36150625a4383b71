-- The middle MicroBERT on eight H200, 256 texts a step, 5 epochs.
return extend(use "mlm_1gpu_standard", {
    about = "MLM over words: MicroBERT 6 layers, 16 wide, bf16, eight H200, 256 texts a step, 1,000,000 texts",
    gpus = 8,
    model = use "models/microbert_6x16",
    batch = { micro = 32 },
    run = { max_samples = 1000000 },
})
