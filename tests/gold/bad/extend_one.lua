return extend({ target = "cpu" })
