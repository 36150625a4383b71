return {
    target = "cpu",
