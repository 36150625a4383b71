-- BertForMaskedLM of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 26,125 parameters, 26,125 of them trained.
-- Chat template: none: the folder has no tokenizer.json; gen pack and run.sh take --tokenizer FILE.
return {
    about = "F, all weights, fp32",
    target = "cpu_v4",
    objective = "mlm",
    model = {
        family = "bert", layers = 2, hidden = 32, heads = 4, ffn = 64, vocab = 205,
        positions = 32, pad = 5,
    },
    seq = { max = 32 },
    data = { kind = "rows" },
    batch = { micro = 8 },
}
