-- qwen2_lora with adapters of rank 8: one pass over the gradient of a layer's output needs a multiple of 8.
return extend(use "qwen2_lora", {
    lora = { rank = 8, alpha = 16 },
})
