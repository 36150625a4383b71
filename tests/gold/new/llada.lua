-- LLaDAModelLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 33,760 parameters, 33,760 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, all weights, fp32",
    target = "cpu",
    objective = "masked_diffusion",
    model = {
        family = "llada", layers = 2, hidden = 32, heads = 4, ffn = 64, vocab = 205,
        positions = 32, rope_theta = 500000.0, eos = 2,
    },
    seq = { max = 32 },
    data = { kind = "rows" },
    batch = { micro = 8 },
    diffusion = { mask = 4 },
}
