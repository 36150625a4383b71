-- Words of film reviews, on this machine. For a GPU: gen recipes/mlm_imdb.lua target=sm_90 precision=bf16
return {
    about = "MLM over words of film reviews: MicroBERT 4 layers, 8 wide, fp32, 32 texts a step",
    target = "cpu",
    precision = "fp32",
    objective = "mlm",
    data = { kind = "rows" },
    model = use "models/microbert_4x8",
    seq = { max = 128 },
    batch = { micro = 32 },
    optim = { decay_rule = "all" },
    run = {
        epochs = 5, lr = 3e-5, eval_every = "epoch", save_every = "epoch",
        tokenizer = "words", eval_share = 0.1,
    },
}
