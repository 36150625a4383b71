return { name = ("x"):rep(10000000000) }
