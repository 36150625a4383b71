-- Qwen2.5-Math-PRM, 7B parameters (Qwen/Qwen2.5-Math-PRM-7B): Qwen2.5-Math with a score head for steps.
return extend(use "models/qwen2.5_7b", {
    positions = 4096, rope_theta = 10000.0,
    bos = 151643, eos = 151645,
})
