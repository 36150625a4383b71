-- Qwen2 in very small, over bytes: 95,490 parameters with the score head.
-- 256 byte values and eight rows for a tokenizer's special tokens, of which the first ends a text.
return {
    family = "qwen2",
    layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 128,
    vocab = 264, positions = 512,
    norm_eps = 1e-6,
    bos = 256, eos = 256,
}
