-- args: -d graph
return extend(use "dreamprm_tiny", {
    memory = { ffn_rows = 32 },
})
