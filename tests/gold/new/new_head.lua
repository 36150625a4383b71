-- Qwen2ForCausalLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 57,938 parameters, 8,258 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
-- Step mark: <extra_0> is new: model.vocab has one row more than the base.
-- Score head: none in the folder: the recipe adds one and trains it.
return {
    about = "F, LoRA rank 4, fp32",
    target = "cpu",
    objective = "prm",
    model = {
        family = "qwen2", layers = 2, hidden = 48, heads = 4, kv_heads = 2, ffn = 80,
        vocab = 258, positions = 64, rope_theta = 1000000.0, tied = true, bos = 256, eos = 256,
    },
    seq = { max = 64 },
    data = { kind = "steps" },
    batch = { micro = 8 },
    prm = { train_head = true, new_mark = true },
    lora = { rank = 4, alpha = 8.0, targets = {"all-linear"} },
}
