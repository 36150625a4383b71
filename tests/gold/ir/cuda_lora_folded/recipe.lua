-- Adapters on all linear layers on a GPU: those after norms are folded into the layers' products.
return {
    name = "cuda_lora_folded", target = "sm_90", precision = "bf16",
    model = {
        family = "qwen2", layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 96, vocab = 300, tied = true,
    },
    seq = { max = 48 },
    batch = { micro = 2 },
    lora = { rank = 8, dropout = 0.1, targets = { "q_proj", "v_proj", "gate_proj", "up_proj", "down_proj" } },
}
