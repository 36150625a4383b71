-- A model of transitions has no embedding of tokens that could stay in host memory.
return extend(use "ad", {
    memory = { embedding = "host" },
})
