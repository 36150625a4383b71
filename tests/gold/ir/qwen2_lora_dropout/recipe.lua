-- Qwen2 with adapters that see dropout, rslora's scale, rows with masks: base weights have no gradient.
return {
    name = "qwen2_lora_dropout", target = "cpu", precision = "fp32",
    model = {
        family = "qwen2", layers = 2, hidden = 32, heads = 4, kv_heads = 2, ffn = 48, vocab = 300, tied = true,
    },
    data = { kind = "rows" },
    seq = { max = 48 },
    batch = { micro = 2 },
    lora = { rank = 4, dropout = 0.1, targets = { "q_proj", "v_proj", "down_proj" }, rslora = true },
}
