-- Llama 2, 7B parameters (meta-llama/Llama-2-7b-hf), and a token for the step mark after its 32,000.
return extend(use "models/llama2_7b", { vocab = 32001 })
