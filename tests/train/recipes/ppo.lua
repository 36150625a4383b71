-- Histories of darkroom.
return { objective = "ppo", target = "cpu" }
