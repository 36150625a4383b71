-- Masked language model: BertForMaskedLM, independent masks; settings of tests/oracle/mlm.py.
return extend(use "mlm_microbert", {
    model = { family = "bert", hidden = 32, ffn = 64, norm_eps = 1e-12, pad = 5 },
    mlm = { select = "independent", share = 0.3 },
    run = { lr = 3e-3, seed = 3 * 4294967296 + 5 },
})
