-- args: -d graph
return extend(use "dreamprm_tiny", {
    lora = { rank = 0 },
    optim = { when = "backward" },
    run = { clip = 0 },
})
