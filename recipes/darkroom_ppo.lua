-- Histories of learning for recipes of algorithm distillation: in each of the 81 tasks of darkroom a policy learns by
-- PPO, and every step it takes is written down. No model of layers: the program is made for these numbers alone.
return {
    about = "81 histories of PPO on darkroom, for algorithm distillation",
    objective = "ppo",
    target = "cpu",
}
