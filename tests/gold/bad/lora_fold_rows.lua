-- args: -d graph
return {
    target = "sm_90", precision = "bf16",
    model = use "models/tiny_llama",
    seq = { max = 64 },
    batch = { micro = 2 },
    lora = { rank = 6, targets = { "q_proj", "v_proj" }, fold = "all" },
}
