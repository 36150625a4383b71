-- All places of a window asked in one pass.
return extend(use "ad_plain", { ad = { queries = "all" }, batch = { micro = 2 } })
