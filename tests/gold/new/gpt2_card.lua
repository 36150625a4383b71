-- GPT2LMHeadModel of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 120,640 parameters, 120,640 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, all weights, fp32",
    card = "rtx3080",
    model = {
        family = "gpt2", layers = 2, hidden = 64, heads = 4, vocab = 257, positions = 64,
        bos = 256, eos = 256,
    },
    seq = { max = 64 },
    batch = { micro = 8 },
    run = { epochs = 1.0, lr = 1e-05, schedule = "cosine", warmup = 0.03 },
}
