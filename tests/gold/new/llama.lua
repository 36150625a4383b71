-- LlamaForCausalLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 94,656 parameters, 94,656 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, all weights, fp32",
    target = "cpu",
    model = {
        family = "llama", layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 96,
        vocab = 257, positions = 64, norm_eps = 1e-05, rope_scaling = "llama3",
        rope_original_positions = 16, bos = 256, eos = 256,
    },
    seq = { max = 64 },
    batch = { micro = 8 },
    run = { epochs = 1.0, lr = 1e-05, schedule = "cosine", warmup = 0.03 },
}
