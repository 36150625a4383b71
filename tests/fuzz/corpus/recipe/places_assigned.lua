-- a field that is set after its table was written
local recipe = extend(use "cpu_tiny", { gpus = 2 })
recipe.model.heads = 4
recipe.batch.micro = 0
return recipe
