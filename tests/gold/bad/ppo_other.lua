-- args: ppo.clip_ratio=0.3
local r = use "cpu_tiny"
return r
