-- One untied layer: rank-stabilised LoRA on q and v, the output head trained in full.
return extend(use "qwen2_tiny", {
    model = { layers = 1, tied = false },
    lora = { rank = 4, alpha = 8, rslora = true, targets = { "q_proj", "v_proj" }, modules_to_save = { "lm_head" } },
    run = { seed = 4294967294, lr = 5e-3, clip = 1.8 },
})
