-- Gradients and weights divided over two GPUs: each layer's matrix is gathered while the layer before it is computed,
-- and its gradient is summed into the parts while the next one's is; the embedding is gathered at the start.
return {
    name = "zero_three", target = "sm_90", gpus = 2, precision = "bf16",
    model = {
        family = "llama", layers = 3, hidden = 64, heads = 2, ffn = 512, vocab = 1100, tied = true,
    },
    seq = { max = 32 },
    batch = { micro = 2 },
    memory = { zero = 3 },
    comm = { overlap = "all" },
}
