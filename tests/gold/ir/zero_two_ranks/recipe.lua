-- Moments divided over two ranks: gradients of the embedding and of a layer's large matrices are reduced to the rank
-- that updates them, and the new weights gathered.
return {
    name = "zero_two_ranks", target = "cpu", gpus = 2, precision = "bf16",
    model = {
        family = "llama", layers = 2, hidden = 64, heads = 4, ffn = 512, vocab = 1100,
    },
    seq = { max = 32 },
    batch = { micro = 2, accum = 2 },
    memory = { zero = 1 },
}
