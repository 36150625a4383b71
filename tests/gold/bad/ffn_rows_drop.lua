return extend(use "ad_tiny", {
    memory = { ffn_rows = 16 },
})
