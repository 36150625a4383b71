-- args: -d plan
-- In half of the sequences there are fewer tokens than the bound: what fits has a bound of its own.
return {
    target = "sm_86",
    model = use "models/gpt2_124m",
    seq = { max = 1024 },
    batch = { micro = 16, targets = 12000 },
    memory = { limit_gib = 8 },
}
