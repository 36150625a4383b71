-- Feed-forward layers in tiles of rows, with biases, on a GPU: gradients that are added to over tiles and micro-batches.
return {
    name = "feed_forward_tiles", target = "sm_90", precision = "bf16",
    model = { family = "gpt2", layers = 2, hidden = 64, heads = 4, vocab = 257, positions = 32 },
    seq = { max = 32 },
    batch = { micro = 2, accum = 2 },
    memory = { ffn_rows = 16 },
}
