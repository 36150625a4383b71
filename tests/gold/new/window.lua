-- MistralForCausalLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 57,168 parameters, 57,168 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, all weights, fp32",
    target = "cpu",
    model = {
        family = "mistral", layers = 2, hidden = 48, heads = 2, kv_heads = 1, head_dim = 16,
        ffn = 80, vocab = 257, positions = 64, norm_eps = 1e-05, rope_scaling = "linear",
        rope_factor = 4.0, bos = 256, eos = 256,
    },
    seq = { max = 32 },
    batch = { micro = 8 },
    run = { epochs = 1.0, lr = 1e-05, schedule = "cosine", warmup = 0.03 },
}
