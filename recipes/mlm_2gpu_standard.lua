-- The smallest MicroBERT on two GPUs, 64 texts a step.
return extend(use "mlm_1gpu_standard", {
    about = "MLM over words: MicroBERT 4 layers, 8 wide, bf16, two GPUs, 64 texts a step, 500,000 texts",
    gpus = 2,
    batch = { micro = 32 },
    run = { max_samples = 500000 },
})
