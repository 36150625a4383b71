-- The same, a region's end asked for at its last step.
return extend(use "ad_all", { ad = { boundary = "last" } })
