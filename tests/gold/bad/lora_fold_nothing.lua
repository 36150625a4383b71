-- args: -d graph
return {
    target = "sm_90", precision = "fp32",
    model = { family = "gpt2", layers = 2, hidden = 64, heads = 4, vocab = 300 },
    seq = { max = 32 }, batch = { micro = 2 },
    lora = { rank = 8, targets = { "c_proj" }, fold = "all" },
}
