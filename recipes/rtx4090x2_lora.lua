-- rtx4090_lora.lua on two cards, half of the global batch each.
-- Planned: 16.5 GiB of 22.5 GiB a card.
return extend(use "rtx4090_lora", {
    about = "rtx4090_lora on two RTX 4090",
    gpus = 2,
    batch = { accum = 4 },
})
