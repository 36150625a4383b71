-- a table that a function makes, and one that a loop makes: the line of the key
local function model(layers)
    local m = {
        family = "gpt2", layers = layers, hidden = 64,
        heads = 0, vocab = 512, positions = 64,
    }
    return m
end
local batch
for i = 1, 3 do
    batch = { micro = i,
              acum = "text with \z
                      two lines" }
end
local seq = { max = 64,
              min = 2 }
return { target = "cpu", model = model(2), batch = batch,
         seq = seq }
