-- Gradients added micro-batch by micro-batch: each has its own, of a layer's large matrices in one slot, and op fold
-- adds those of all ranks in order, of a divided matrix to the part of the rank that updates it.
return {
    name = "canonical_two_ranks", target = "cpu", gpus = 2, precision = "bf16",
    model = {
        family = "llama", layers = 2, hidden = 64, heads = 4, ffn = 512, vocab = 1100,
    },
    seq = { max = 32 },
    batch = { global = 8, micro = 2 },
    comm = { order = "canonical" },
}
