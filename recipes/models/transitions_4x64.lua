-- A small encoder of transitions: post-norm, 64 wide, four layers.
-- 222,024 parameters with a compressed context of 240 places, 221,509 with a plain one.
return {
    family = "transitions",
    layers = 4, hidden = 64, heads = 4,
    dropout = 0.1, attention_dropout = 0.1,
}
