return {
    target = "cpu", model = use "models/tiny_gpt2", seq = { max = 64 }, batch = { micro = 1 },
    run = { eval_every = "epochs", save_every = "epoch" },
}
