-- GPT-2, 355M parameters (openai-community/gpt2-medium).
return extend(use "models/gpt2_124m", { layers = 24, hidden = 1024, heads = 16 })
