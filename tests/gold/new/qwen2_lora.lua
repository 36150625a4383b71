-- Qwen2ForCausalLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 55,392 parameters, 5,760 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, LoRA rank 4, fp32",
    target = "cpu",
    model = {
        family = "qwen2", layers = 2, hidden = 48, heads = 4, kv_heads = 2, ffn = 80,
        vocab = 257, positions = 64, rope_theta = 1000000.0, tied = true, bos = 256, eos = 256,
    },
    seq = { max = 32 },
    batch = { micro = 2 },
    lora = { rank = 4, alpha = 8.0, targets = {"all-linear"} },
    run = { epochs = 1.0, lr = 0.003, schedule = "cosine", warmup = 0.03 },
}
