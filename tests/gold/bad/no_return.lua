local recipe = { target = "cpu" }
