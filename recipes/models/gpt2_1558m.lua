-- GPT-2, 1558M parameters (openai-community/gpt2-xl).
return extend(use "models/gpt2_124m", { layers = 48, hidden = 1600, heads = 25 })
