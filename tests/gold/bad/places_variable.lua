local batch = { micro = 2, accum = 0 }
local recipe = {
    target = "cpu",
    model = use "models/tiny_gpt2",
    seq = { max = 0 },
    batch = batch,
}
return recipe
