-- A base in NF4 on a GPU: dequantised before each product, forward and backward; folded adapters, recomputation;
-- the embedding in the memory of the host.
return {
    name = "nf4", target = "sm_90", precision = "bf16",
    model = {
        family = "qwen2", layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 96, vocab = 300, tied = false,
    },
    seq = { max = 48 },
    batch = { micro = 2 },
    memory = { recompute = "block", embedding = "host" },
    lora = { rank = 8, targets = { "q_proj", "v_proj", "gate_proj", "up_proj", "down_proj" }, base = "nf4" },
}
