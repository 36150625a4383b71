return {
    objective = "ppo",
    target = "cpu",
    ppo = { streams = 3, minibatch = 7 },
}
