-- A family of the tests: token types, see ../typed.c.
return extend(use "base", {
    model = { family = "typed" },
    data = { kind = "bfd" },
    run = { seed = 25, clip = 1.0 },
})
