-- a field that follows from others
return {
    target = "cpu",
    objective = "ad",
    model = { family = "transitions", layers = 2, hidden = 32, heads = 4 },
    seq = { max = 164 },
    batch = { micro = 2 },
}
