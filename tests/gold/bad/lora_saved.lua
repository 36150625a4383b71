return {
    target = "cpu",
    model = use "models/tiny_llama",
    seq = { max = 64 },
    batch = { micro = 2 },
    lora = { rank = 4, modules_to_save = { "score" } },
}
