-- The smallest masked language model: 5,501 parameters, 200 words, for a first look and for tests.
return extend(use "mlm_imdb", {
    about = "very small MLM over words, from scratch, in seconds",
    model = use "models/tiny_microbert",
    seq = { max = 32 },
    run = { lr = 1e-2 },
})
