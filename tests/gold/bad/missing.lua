return {
    model = { family = "gpt2" },
}
