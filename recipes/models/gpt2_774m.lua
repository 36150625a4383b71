-- GPT-2, 774M parameters (openai-community/gpt2-large).
return extend(use "models/gpt2_124m", { layers = 36, hidden = 1280, heads = 20 })
