-- keys in strings, comments, calls and functions are not taken for fields
--[==[ batch = { micro = 0 } ]==]
local text = "batch = { micro = 0 }"
local function batch(micro) local t = { micro = micro } return t end
return {
    target = "cpu", about = text, -- micro = 1
    model = use "models/tiny_gpt2",
    seq = { max = 64 },
    data = { kind = "rows" }, batch = { accum = 3, --[[ micro = 5 ]]
        ["micro"] =
            -1 },
}
