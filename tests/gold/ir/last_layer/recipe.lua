-- Queries of which the head reads one a sequence: the last layer computes only their rows after its attention, with the
-- dropout masks that those rows have among all.
return {
    name = "last_layer", target = "cpu", objective = "ad",
    model = { family = "transitions", layers = 3, hidden = 32, heads = 2, dropout = 0.1, attention_dropout = 0.1 },
    ad = { n_transit = 24 },
    batch = { micro = 4 },
    kernels = { last_layer = "read" },
}
