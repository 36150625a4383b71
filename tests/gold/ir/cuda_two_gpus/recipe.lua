-- Two GPUs: launches on a stream, cuBLASLt's epilogues, gradients summed during the backward pass, one CUDA graph.
return {
    name = "cuda_two_gpus", target = "sm_90", gpus = 2, precision = "fp16",
    model = {
        family = "gpt2", layers = 2, hidden = 64, heads = 4, vocab = 257,
    },
    seq = { max = 32 },
    batch = { micro = 2, accum = 2 },
    comm = { overlap = "all" },
}
