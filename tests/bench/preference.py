"""Preference optimisation for the bench: in plain PyTorch, and as TRL's DPOTrainer computes it.

In:    rows (2 * pairs, T), all chosen before all rejected: input_ids, attention_mask, and
       completion_mask with 1 in the answers; ref_chosen_logps and ref_rejected_logps (pairs) where
       the reference's log-probabilities are known.
Out:   the loss of a batch: eager(model), trl_loss(model, lora, cached) return the function of it."""
import tempfile

import torch
from torch.nn import functional as F

BETA, KL = 0.1, 0.1


def eager(model):
    """As in recipes/dpo_tiny.lua: the mean log-probability of an answer's tokens, and a KL term."""

    def loss(input_ids, attention_mask, completion_mask, ref_chosen_logps, ref_rejected_logps):
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, :-1]
        each = logits.log_softmax(-1).gather(-1, input_ids[:, 1:, None])[..., 0]
        answer = completion_mask[:, 1:]
        chosen, rejected = ((each * answer).sum(-1) / answer.sum(-1)).chunk(2)
        of_chosen, of_rejected = chosen - ref_chosen_logps, rejected - ref_rejected_logps
        kl = -ref_chosen_logps.exp() * of_chosen - ref_rejected_logps.exp() * of_rejected
        return (KL * kl - F.logsigmoid(BETA * (of_chosen - of_rejected))).mean()

    return loss


def trl_loss(model, lora, cached):
    """The sum of an answer's log-probabilities, as TRL has it; its reference: the rows given when
    cached, else one more forward pass without the adapters. Returns the model with them as well."""
    import datasets
    import tokenizers
    import transformers
    import trl
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {"a": 0, "b": 1, "<eos>": 2, "<pad>": 3}, unk_token="<pad>"))
    rows = datasets.Dataset.from_list([{"prompt": "a", "chosen": "a", "rejected": "b"}])
    with tempfile.TemporaryDirectory() as tmp:
        trainer = trl.DPOTrainer(
            model=model, peft_config=lora, train_dataset=rows,
            processing_class=transformers.PreTrainedTokenizerFast(
                tokenizer_object=words, eos_token="<eos>", pad_token="<pad>"),
            args=trl.DPOConfig(output_dir=tmp, beta=BETA, use_cpu=True, bf16=False,
                               gradient_checkpointing=False, report_to="none", disable_tqdm=True))
    trainer.precompute_ref_logps = cached    # what it computes of `rows` is not for these batches
    return trainer.model, lambda **inputs: trainer.compute_loss(trainer.model, inputs)
