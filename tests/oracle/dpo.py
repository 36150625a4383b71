#!/usr/bin/env python3
"""Records reference runs of preference optimisation: dpo.py [--out DIR] [CASE ...].

In:    transformers' LlamaForCausalLM, PEFT; torch autograd; TRL's DPOTrainer in the cases that it has.
Out:   DIR/CASE: record files of pairs, model, adapter, expect.json and the last weights of a run in
       fp64; of the same in fp32 the losses and how far the weights drift. DIR/dpo_variants/expect.json:
       losses in fp64 of each of VARIANTS, on the files of another case; dpo_variants/masked.jsonl:
       pairs parts of whose answers count for nothing.
Keeps: the formulas stand here a second time, as text has them; TRL's losses are within 1e-5 of them.
       A pair is a word and its letters in reverse, chosen, or in another order, rejected."""
import argparse
import json
import os
import random
import shutil
import tempfile

import numpy as np
import peft
import safetensors
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.trainer_pt_utils import get_parameter_names

import data
import rounding
import train as runs

T, PAIRS, EVAL_PAIRS, BATCH, STEPS, V = 32, 40, 9, 8, 10, 264
DECAY, CLIP, BETA, KL = 0.001, 1.0, 0.1, 0.1
SEED = 42
REF = runs.REF

# files: those of another case; trl: DPOTrainer has this one
CASES = {
    "dpo_mean": dict(lr=3e-3, logp="mean", kl=KL),
    "dpo_sum": dict(lr=1e-3, logp="sum", kl=0, files="dpo_mean", trl=True),
    "dpo_lora": dict(lr=3e-3, logp="sum", kl=0, files="dpo_mean", trl=True, lora=dict(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")),
}

# Further options of a loss; as CASES. penalty, shift, smoothing: of recipes; by_token: the divergence
# of every token's distribution; trl: the words that DPOTrainer has for
# it (its label_smoothing is of another loss)
VARIANTS = {
    "ipo": dict(lr=3e-3, logp="mean", kl=0, loss="ipo", trl=dict(loss_type=["ipo"])),
    "smoothing": dict(lr=1e-3, logp="sum", kl=0, smoothing=0.2),
    "dpop": dict(lr=1e-3, logp="sum", kl=0, penalty=5),
    "dposhift": dict(lr=1e-3, logp="sum", kl=0, shift=0.6),
    "dpopshift": dict(lr=1e-3, logp="sum", kl=0, penalty=5, shift=0.6),
    "token": dict(lr=3e-3, logp="mean", kl=KL, by_token=True),
    "token_sum": dict(lr=1e-3, logp="sum", kl=3, by_token=True),
    "token_lora": dict(lr=3e-3, logp="sum", kl=3, by_token=True, of="dpo_lora"),
    "masked": dict(lr=3e-3, logp="mean", kl=KL, masked=True),
}


def llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=V, num_hidden_layers=2, hidden_size=64, intermediate_size=128,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
        rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=data.EOS, eos_token_id=data.EOS,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0)))


# ---- pairs -----------------------------------------------------------------------------------------

def make_pairs(seed, n):
    """(prompt, chosen, rejected); answers of several lengths, one pair's are equal."""
    rng, out = random.Random(seed), []
    for i in range(n):
        word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 11)))
        other = list(word[:rng.randint(2, len(word))])
        rng.shuffle(other)
        out.append((word + ">", word[::-1], word[::-1] if i == 1 else "".join(other)))
    return out


def row(prompt, answer, spans=()):
    """Tokens, and which of them count: of the answer what no span [begin, end) of its letters covers."""
    ids = list((prompt + answer).encode()) + [data.EOS]
    mask = [0] * len(prompt) + [1] * (len(ids) - len(prompt))
    for begin, end in spans:
        mask[len(prompt) + begin:len(prompt) + end] = [0] * (end - begin)
    return ids, mask


def masked_pairs(path, seed):
    """Writes pairs with spans of their answers as JSON Lines; as read_pairs()."""
    rng, out = random.Random(seed), []
    with open(path, "w") as f:
        for i, (prompt, chosen, rejected) in enumerate(make_pairs(seed, PAIRS)):
            rejected = "-" if chosen == rejected else rejected
            spans = []
            for answer in (chosen, rejected):
                begin = rng.randint(0, len(answer) - 1)
                spans.append([[begin, rng.randint(begin + 1, len(answer))]] if i % 4 else [])
            f.write(json.dumps({"prompt": prompt, "chosen": chosen, "chosen_masked": spans[0],
                                "rejected": rejected, "rejected_masked": spans[1]}) + "\n")
            out.append((row(prompt, chosen, spans[0]), row(prompt, rejected, spans[1])))
    return out


def write_pairs(path, pairs, seed):
    tensors = {}
    for part, answer in (("chosen", 1), ("rejected", 2)):
        rows = [row(p[0], p[answer]) for p in pairs]
        tensors[part] = np.array(sum((ids for ids, _ in rows), []), np.int32)
        tensors[f"{part}.offsets"] = np.cumsum([0] + [len(ids) for ids, _ in rows]).astype(np.int64)
        tensors[f"{part}.mask"] = np.array(sum((m for _, m in rows), []), np.uint8)
    meta = {"format": "diecast-records-1", "kind": "pairs", "records": str(len(pairs)),
            "columns": "chosen=ragged chosen.mask=chosen rejected=ragged rejected.mask=rejected",
            "tokenizer": "bytes", "vocab": str(data.VOCAB), "eos": str(data.EOS),
            "max_length": str(T), "sha256": f"{seed:064x}"}
    aligned = sorted(tensors, key=lambda name: -tensors[name].itemsize)
    data.save(path, {name: tensors[name] for name in aligned}, meta)


def read_pairs(path):
    """[((ids, mask), (ids, mask))]"""
    with safetensors.safe_open(path, "np") as f:
        part = {}
        for name in ("chosen", "rejected"):
            ids, mask, at = (f.get_tensor(name + s).tolist() for s in ("", ".mask", ".offsets"))
            part[name] = [(ids[b:e], mask[b:e]) for b, e in zip(at, at[1:])]
    return list(zip(part["chosen"], part["rejected"]))


# ---- the formulas ----------------------------------------------------------------------------------

def distributions(model, rows):
    """(rows, places, V) log-probabilities of what follows each place; what is there; where it is an
    answer."""
    n = max(len(ids) for ids, _ in rows)
    pad = lambda v: torch.tensor([r + [0] * (n - len(r)) for r in v])
    ids, mask = pad([r[0] for r in rows]), pad([r[1] for r in rows])
    on = pad([[1] * len(r[0]) for r in rows])
    logp = model(input_ids=ids, attention_mask=on).logits[:, :-1].log_softmax(-1)
    return logp, ids[:, 1:], mask[:, 1:]


def of_answers(logp, ids, mask, how):
    each = logp.gather(-1, ids[..., None])[..., 0] * mask
    return each.sum(-1) / (mask.sum(-1) if how == "mean" else 1)


def log_probs(model, rows, how):
    """Of each row the log-probability of its answer."""
    return of_answers(*distributions(model, rows), how)


def by_reference(model, run, *args):
    with torch.no_grad():
        if isinstance(model, PeftModel):
            with model.disable_adapter():
                return run(model, *args)
        return run(model, *args)


def reference(model, rows, how):
    return by_reference(model, log_probs, rows, how)


def pair_losses(case, lp, rf):
    """(pairs); rows are chosen, rejected, chosen ..."""
    (pc, pr), (rc, rr) = (x.view(-1, 2).unbind(1) for x in (lp, rf))
    below = rc - pc
    # in exact numbers nothing is below at first
    below = torch.where(below > 1e-9, below, torch.zeros_like(below))
    h = (pc - rc) - case.get("shift", 1) * (pr - rr) - case.get("penalty", 0) * below
    if case.get("loss") == "ipo":
        return (h - 1 / (2 * BETA)) ** 2
    e = case.get("smoothing", 0)
    loss = -(1 - e) * F.logsigmoid(BETA * h) - e * F.logsigmoid(-BETA * h)
    if case.get("by_token"):
        return loss
    return loss + case["kl"] * (torch.exp(rc) * (rc - pc) + torch.exp(rr) * (rr - pr))


def divergences(logp, mask, from_logp):
    """(pairs) K_c + K_r: of each answer the mean of its tokens' sum P_rf ln(P_rf / P_pi)."""
    each = (from_logp.exp() * (from_logp - logp)).sum(-1) * mask
    return (each.sum(-1) / mask.sum(-1)).view(-1, 2).sum(-1)


def flat(pairs):
    return [r for p in pairs for r in p]


def evaluate(model, case, held, held_rf):
    with torch.no_grad():
        losses = pair_losses(case, log_probs(model, flat(held), case["logp"]), held_rf)
    return {"eval_loss": losses.mean().item()}


def order(seed):
    """An epoch leaves out what does not fill a step."""
    out, per = [], PAIRS // BATCH
    for epoch in range(-(-STEPS // per)):
        g = torch.Generator().manual_seed((seed + epoch) & 0xffffffff)
        out += torch.randperm(PAIRS, generator=g).tolist()[:per * BATCH]
    return out


def load(case, out, dtype):
    model = LlamaForCausalLM.from_pretrained(os.path.join(out, "model"), dtype=torch.float32,
                                             attn_implementation="eager")
    if "lora" in case:
        model = PeftModel.from_pretrained(model, os.path.join(out, "adapter_init"), is_trainable=True)
    return model.to(dtype).train()


def train(case, out, pairs, held, dtype):
    model, how = load(case, out, dtype), case["logp"]
    rf = torch.cat([reference(model, flat(pairs[i:i + BATCH]), how) for i in range(0, PAIRS, BATCH)])
    rf = rf.view(-1, 2)
    held_rf = reference(model, flat(held), how)
    params = runs.named_trained(model)
    decays = set(get_parameter_names(model, [torch.nn.LayerNorm], runs.NO_DECAY))
    opt = torch.optim.AdamW([{"params": [p for n, p in params if n in decays], "weight_decay": DECAY},
                             {"params": [p for n, p in params if n not in decays], "weight_decay": 0.0}],
                            lr=case["lr"], betas=(0.9, 0.999), eps=1e-8, foreach=False)
    sched = transformers.get_scheduler("linear", opt, 0, STEPS)
    run, todo = {"initial": evaluate(model, case, held, held_rf), "steps": []}, order(SEED)
    for step in range(STEPS):
        at = todo[step * BATCH:][:BATCH]
        rows = flat(pairs[i] for i in at)
        lp = log_probs(model, rows, how)
        loss = pair_losses(case, lp, rf[at].view(-1)).mean()
        reward = (lp.detach() - rf[at].view(-1)).view(-1, 2)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in params], CLIP, foreach=False)
        lr = sched.get_last_lr()[0]
        opt.step()
        sched.step()
        opt.zero_grad()
        run["steps"].append({
            "step": step + 1, "loss": loss.item(), "grad_norm": norm.item(), "lr": lr,
            "targets": sum(sum(m) for _, m in rows),
            "margin": (reward[:, 0] - reward[:, 1]).mean().item(),
            "accuracy": (reward[:, 0] > reward[:, 1]).double().mean().item(),
            "policy_chosen": lp[0::2].mean().item(), "policy_rejected": lp[1::2].mean().item(),
            "reference_chosen": rf[at][:, 0].mean().item(),
            "reference_rejected": rf[at][:, 1].mean().item()})
    run["final"] = evaluate(model, case, held, held_rf)
    return model, run


def train_variant(case, out, pairs, dtype):
    """The losses of a run; the reference is a model of its own."""
    model, how, losses = load(case, out, dtype), case["logp"], []
    first = load(case, out, dtype)
    params = runs.named_trained(model)
    decays = set(get_parameter_names(model, [torch.nn.LayerNorm], runs.NO_DECAY))
    opt = torch.optim.AdamW([{"params": [p for n, p in params if n in decays], "weight_decay": DECAY},
                             {"params": [p for n, p in params if n not in decays], "weight_decay": 0.0}],
                            lr=case["lr"], betas=(0.9, 0.999), eps=1e-8, foreach=False)
    sched, todo = transformers.get_scheduler("linear", opt, 0, STEPS), order(SEED)
    for step in range(STEPS):
        rows = flat(pairs[i] for i in todo[step * BATCH:][:BATCH])
        logp, ids, mask = distributions(model, rows)
        from_logp = by_reference(first, distributions, rows)[0]
        each = pair_losses(case, of_answers(logp, ids, mask, how), of_answers(from_logp, ids, mask, how))
        if case.get("by_token"):
            each = each + case["kl"] * divergences(logp, mask, from_logp)
        loss = each.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in params], CLIP, foreach=False)
        opt.step()
        sched.step()
        opt.zero_grad()
        losses.append(loss.item())
    return losses


# ---- TRL -------------------------------------------------------------------------------------------

def letters(folder):
    """A tokenizer whose ids are bytes, with data.EOS after an answer."""
    import tokenizers
    vocab = {chr(i): i for i in range(32, 127)} | {"<eos>": data.EOS, "<pad>": data.EOS + 1}
    t = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<pad>"))
    t.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<eos>",
                                                pad_token="<pad>")


def by_trl(case, out, texts, words={}):
    """The losses of DPOTrainer."""
    import datasets
    import trl
    losses = []

    class Trainer(trl.DPOTrainer):
        def _get_train_sampler(self, *args):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            losses.append((loss[0] if isinstance(loss, tuple) else loss).item())
            return loss

    with tempfile.TemporaryDirectory() as tmp:
        args = trl.DPOConfig(
            output_dir=tmp, per_device_train_batch_size=BATCH, learning_rate=case["lr"],
            lr_scheduler_type="linear", max_steps=STEPS, weight_decay=DECAY, max_grad_norm=CLIP,
            beta=BETA, bf16=False, use_cpu=True, gradient_checkpointing=False, report_to="none",
            save_strategy="no", logging_steps=1, optim="adamw_torch", max_length=None,
            disable_tqdm=True, adam_epsilon=1e-8, **words)
        texts = [texts[i] for i in order(SEED)]
        rows = [dict(zip(("prompt", "chosen", "rejected"), t)) for t in texts]
        Trainer(model=load(case, out, torch.float32), args=args,
                train_dataset=datasets.Dataset.from_list(rows), processing_class=letters(tmp)).train()
    return losses


# ---- a case ----------------------------------------------------------------------------------------

def prepare(name, case, out):
    seed = 3000 + SEED
    model = llama()
    runs.randomise(model.named_parameters(), 100 + len(name))
    runs.save_model(model, {}, os.path.join(out, "model"))
    write_pairs(os.path.join(out, "tokens.safetensors"), make_pairs(seed, PAIRS), seed)
    write_pairs(os.path.join(out, "eval.safetensors"), make_pairs(seed + 1, EVAL_PAIRS), seed + 1)


def record(name, folder):
    case, out = CASES[name], os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    if "files" in case:
        for file in ("model", "tokens.safetensors", "eval.safetensors"):
            os.symlink(os.path.join("..", case["files"], file), os.path.join(out, file))
    else:
        prepare(name, case, out)
    if "lora" in case:
        torch.manual_seed(SEED)
        base = LlamaForCausalLM.from_pretrained(os.path.join(out, "model"), dtype=torch.float32)
        runs.save_adapter(get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **case["lora"])),
                          os.path.join(out, "adapter_init"))
    pairs, held = (read_pairs(os.path.join(out, f"{n}.safetensors")) for n in ("tokens", "eval"))
    single, run32 = train(case, out, pairs, held, torch.float32)
    runs.fp64_norms(True)
    model, run = train(case, out, pairs, held, torch.float64)
    far = rounding.drift(lambda: train(case, out, pairs, held, torch.float64), model, run, runs.parameters)
    runs.fp64_norms(False)
    losses = [s["loss"] for s in run["steps"]]
    trl = by_trl(case, out, make_pairs(3000 + SEED, PAIRS)) if case.get("trl") else None
    off = max(abs(a - b) / b for a, b in zip(trl, losses)) if trl else 0
    assert off < 1e-5 and (not trl or len(trl) == STEPS), (off, trl, losses)
    drift = {runs.tensor_name(n): (a - b).abs().max().item() for (n, a), (_, b) in
             zip(runs.named_trained(model), runs.named_trained(single))}
    model.float()
    if "lora" in case:
        runs.save_adapter(model, os.path.join(out, "adapter_final"))
    else:
        save_file({n: p.detach() for n, p in model.named_parameters()},
                  os.path.join(out, "final.safetensors"), metadata={"format": "pt"})
    versions = {m.__name__: m.__version__ for m in (torch, transformers, peft, safetensors, np)}
    if trl:
        import trl as module
        versions["trl"] = module.__version__
    expect = {"case": name, "versions": versions,
              "settings": {"T": T, "batch": BATCH, "steps": STEPS, "pairs": PAIRS,
                           "eval_pairs": EVAL_PAIRS, "seed": SEED, "lr": case["lr"],
                           "schedule": "linear", "weight_decay": DECAY, "decay_rule": "hf5",
                           "clip": CLIP, "beta": BETA, "logp": case["logp"], "kl": case["kl"],
                           "kind": "pairs", "lora": case.get("lora")},
              "dtype": "float64", **run, **({"trl": {"loss": trl}} if trl else {}),
              "float32": {"loss": [s["loss"] for s in run32["steps"]],
                          "grad_norm": [s["grad_norm"] for s in run32["steps"]],
                          "final_max_abs_diff": drift},
              "rounding": far}
    with open(os.path.join(out, "expect.json"), "w") as f:
        f.write(json.dumps(expect, indent=1) + "\n")
    worst = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(run32["steps"], run["steps"]))
    print(f"{name}: loss", " ".join(f"{x:.4f}" for x in losses), f"norm "
          + " ".join(f"{s['grad_norm']:.2f}" for s in run["steps"]))
    print(f"  eval {run['initial']['eval_loss']:.4f} {run['final']['eval_loss']:.4f}; fp32 against "
          f"fp64: loss {worst:.1e} weights {max(drift.values()):.1e}; TRL off by {off:.1e}")


def record_variants(folder):
    doc = {"dtype": "float64", "versions": {m.__name__: m.__version__ for m in (torch, transformers, peft)},
           "losses": {}, "trl": {}}
    os.makedirs(os.path.join(folder, "dpo_variants"), exist_ok=True)
    for name, case in VARIANTS.items():
        out = os.path.join(folder, case.get("of", "dpo_mean"))
        case = {**case, **({"lora": True} if "of" in case else {})}
        if case.get("masked"):
            pairs = masked_pairs(os.path.join(folder, "dpo_variants", "masked.jsonl"), 3000 + SEED)
        else:
            pairs = read_pairs(os.path.join(out, "tokens.safetensors"))
        single, losses = (train_variant(case, out, pairs, t) for t in (torch.float32, torch.float64))
        doc["losses"][name] = losses
        if "trl" in case:
            import trl
            doc["versions"]["trl"] = trl.__version__
            theirs = by_trl(case, out, make_pairs(3000 + SEED, PAIRS), case["trl"])
            off = max(abs(a - b) / b for a, b in zip(theirs, losses))
            assert off < 1e-5 and len(theirs) == STEPS, (name, off, theirs, losses)
            doc["trl"][name] = theirs
        worst = max(abs(a - b) / b for a, b in zip(single, losses))
        print(f"{name}: loss", " ".join(f"{x:.4f}" for x in losses), f"; fp32 off by {worst:.1e}", flush=True)
    with open(os.path.join(folder, "dpo_variants", "expect.json"), "w") as f:
        parts = [f'"{k}": {json.dumps(v)}' if not isinstance(v, dict) else
                 f'"{k}": {{' + ",\n".join(f"\n  {json.dumps(n)}: {json.dumps(x)}".lstrip("\n") if i else
                 f"\n  {json.dumps(n)}: {json.dumps(x)}" for i, (n, x) in enumerate(v.items())) + "}"
                 for k, v in doc.items()]
        f.write("{" + ",\n ".join(parts) + "}\n")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=REF, help="folder of the cases; default: tests/train/ref")
    p.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    args = p.parse_args()
    for name in args.cases or [*CASES, "dpo_variants"]:
        if name == "dpo_variants":
            record_variants(args.out)
        else:
            record(name, args.out)


if __name__ == "__main__":
    main()
