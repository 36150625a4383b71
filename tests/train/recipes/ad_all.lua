-- All places of a region asked in one pass; settings of tests/oracle/ad.py.
return extend(use "ad_one", {
    model = { dropout = 0.0, attention_dropout = 0.0 },
    ad = { n_transit = 20, queries = "all", type_weight = 1.0 },
    batch = { micro = 2 },
    run = { seed = 7 },
})
