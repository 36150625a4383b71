-- Llama 3: RMSNorm, rotary positions with their scaling, two query heads a key head, SwiGLU, a head of its own; bf16.
return {
    name = "llama_gqa_untied", target = "cpu", precision = "bf16",
    model = {
        family = "llama", layers = 3, hidden = 64, heads = 4, kv_heads = 2, ffn = 96, vocab = 300,
        rope_theta = 500000.0, rope_scaling = "llama3", rope_original_positions = 32,
    },
    seq = { max = 64 },
    batch = { micro = 2 },
}
