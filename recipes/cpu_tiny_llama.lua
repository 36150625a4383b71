-- A small Llama over bytes, from scratch: RMSNorm, rotary embedding, grouped heads, SwiGLU.
local recipe = extend(use "cpu_tiny", { about = "small Llama over bytes from scratch" })
recipe.model = use "models/tiny_llama"
return recipe
