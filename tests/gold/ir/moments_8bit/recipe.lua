-- Moments in 8 bit, of matrices of at least 4096 elements, divided over two ranks or whole; those of the embedding and of
-- norms are fp32.
return {
    name = "moments_8bit", target = "cpu", gpus = 2, precision = "bf16",
    model = {
        family = "llama", layers = 2, hidden = 64, heads = 4, ffn = 512, vocab = 257,
    },
    seq = { max = 32 },
    batch = { micro = 2 },
    memory = { zero = 1 },
    optim = { moments = "8bit" },
}
