"""Probabilities that generate() draws the next token from, for tests/runtime/unit_sample.c: the processors and warpers of
transformers in the order that generate() has them. Prints the rows of its table."""
import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

LOGITS = [0.5, 2.0, -1.0, 2.0, 1.0, -30.0, 0.0]
RULES = [                       # temperature, top_k, top_p, min_p, repetition_penalty, tokens so far
    (1.0, 1, 1.0, 0.0, 1.0, []),            # of equals both stay
    (1.0, 3, 1.0, 0.0, 1.0, []),
    (0.7, 4, 0.8, 0.0, 1.0, []),
    (1.0, 0, 1.0, 0.3, 1.0, []),
    (2.0, 5, 0.95, 0.5, 1.0, []),
    (1.0, 0, 1.0, 0.0, 1.5, [1, 2, 1]),     # one that is there twice is penalised once
    (1.0, 3, 0.9, 0.1, 2.0, [3, 2, 0, 1]),
]

model = GPT2LMHeadModel(GPT2Config(vocab_size=7, n_positions=8, n_embd=8, n_layer=1, n_head=1))
for temperature, top_k, top_p, min_p, penalty, known in RULES:
    config = GenerationConfig(do_sample=True, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p or None,
                              repetition_penalty=penalty, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    ids = torch.tensor([known or [5]])
    if not known:
        config.repetition_penalty = 1.0
    processors = model._get_logits_processor(config, ids.shape[1], None, None, [], device="cpu")
    scores = processors(ids, torch.tensor([LOGITS]))
    p = torch.softmax(scores.double(), -1)[0].tolist()
    rule = f"{{ {temperature:g}, {top_k}, {top_p:g}, {min_p:g}, {penalty:g} }}"
    tokens = ", ".join(map(str, known)) or "0"
    print(f"    {{ {rule}, {{ {tokens} }}, {len(known)},")
    print("      { " + ", ".join(f"{x:.6g}" for x in p) + " } },")
