-- Gemma3ForCausalLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 75,264 parameters, 75,264 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, all weights, fp32",
    target = "cpu",
    model = {
        family = "gemma3_text", layers = 3, hidden = 48, heads = 4, kv_heads = 2,
        head_dim = 16, ffn = 80, vocab = 257, positions = 64, rope_theta = 1000000.0,
        full_every = 2, window = 32, query_scalar = 24.0, bos = 256, eos = 256,
    },
    seq = { max = 32 },
    batch = { micro = 8 },
    run = { epochs = 1.0, lr = 1e-05, schedule = "cosine", warmup = 0.03 },
}
