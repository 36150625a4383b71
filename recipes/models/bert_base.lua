-- BERT, 110M parameters (google-bert/bert-base-uncased): 109,514,298 with the head of BertForMaskedLM.
return {
    family = "bert",
    layers = 12, hidden = 768, heads = 12, ffn = 3072,
    vocab = 30522, positions = 512,
    dropout = 0.1, attention_dropout = 0.1,
}
