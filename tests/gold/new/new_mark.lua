-- Qwen2ForProcessRewardModel of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 95,554 parameters, 95,554 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
-- Step mark: <extra_0> is new: model.vocab has one row more than the base.
return {
    about = "F, all weights, fp32",
    target = "cpu",
    objective = "prm",
    model = {
        family = "qwen2", layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 128,
        vocab = 265, positions = 128, bos = 256, eos = 256,
    },
    seq = { max = 128 },
    data = { kind = "steps" },
    batch = { micro = 8 },
    prm = { new_mark = true },
}
