-- mlm_bert with dropout.
return extend(use "mlm_bert", {
    model = { dropout = 0.1, attention_dropout = 0.2 },
})
