-- What all reference cases share: shapes and settings of tests/oracle/train.py.
return {
    target = "cpu",
    model = {
        layers = 2, hidden = 64, heads = 4, vocab = 257, positions = 64,
        bos = 256, eos = 256,
    },
    seq = { max = 32 },
    batch = { micro = 4, accum = 2 },
    run = {
        steps = 20, lr = 3e-3, schedule = "linear", warmup = 5,
        weight_decay = 0.1, log_every = 1, eval_every = 10,
    },
}
