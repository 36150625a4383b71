-- Every field set, so that a field the config room forgets is seen.
return {
    name = "every_field", about = "quotes \" \\ and \n a line",
    target = "sm_90", card = "none", gpus = 2, precision = "bf16", objective = "lm",
    seq = { max = 4096.0 },
    data = { kind = "rows" },
    batch = { global = 12, micro = 2^1, texts = 3, accum = 6 // 2, targets = 1024 },
    model = {
        family = "llama", layers = 3, hidden = 64, heads = 4, kv_heads = 2, head_dim = 8, ffn = 96,
        vocab = 300, positions = 8192, norm_eps = 1e-5,
        rope_theta = 500000, rope_scaling = "llama3", rope_factor = 32.0,
        rope_low_freq_factor = 1.5, rope_high_freq_factor = 4.5, rope_original_positions = 2048,
        tied = false, attention_bias = true, dropout = 0.0, attention_dropout = 0.1, init_std = 0.1 + 0.2, bos = 256, eos = 257, pad = -1,
    },
    lora = {
        rank = 4, alpha = 12, dropout = 0.1, targets = { "q_proj", "o_proj" }, rslora = true,
        fold = "none", base = "nf4", modules_to_save = { "lm_head", "embed_tokens" },
    },
    memory = { recompute = "block", keep = { "norms", "att" }, loss_rows = 128, ffn_rows = 64, zero = 0, limit_gib = 2.5, embedding = "device" },
    checkpoint = { async = true },
    optim = { decay_rule = "all", master = "fp32", moments = "fp32", when = "step" },
    kernels = { fuse = false, graph = false, attention = "builtin", logits = "16bit", last_layer = "all" },
    comm = { bucket_mib = 7, overlap = "all", order = "fast" },
    tune = { lock = "optional", card = "NVIDIA H200" },
    run = { lr = 1 / 3, steps = 7, seed = 9007199254740993, exact = true, data = "a b.safetensors",
            schedule = "constant", save_every = "5epochs" },
}
