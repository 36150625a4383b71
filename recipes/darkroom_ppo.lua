-- Histories of learning for recipes of algorithm distillation: PPO trains a policy on each of the 81 tasks of darkroom,
-- and every step is recorded. There is no layered model: the program is specialised to these numbers.
return {
    about = "81 histories of PPO on darkroom, for algorithm distillation",
    objective = "ppo",
    target = "cpu",
}
