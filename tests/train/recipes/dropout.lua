-- qwen2_lora with dropout in front of the adapters.
return extend(use "qwen2_lora", { lora = { dropout = 0.25 } })
