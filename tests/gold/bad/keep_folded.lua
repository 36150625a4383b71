-- args: -d graph
return {
    target = "sm_90",
    precision = "bf16",
    model = use "models/tiny_llama",
    seq = { max = 64 },
    batch = { micro = 4 },
    lora = { rank = 8, targets = { "all-linear" }, fold = "all" },
    memory = { recompute = "block", keep = { "att", "norms" } },
}
