#!/usr/bin/env python3
"""The other side of the bench: one case trained by PyTorch as a careful user would write it.

In:    CASE of the table CASES; --seconds, --threads, --mode eager|compile|rows|rows-compile|trl
       (rows: of a masked language model only hidden words go through the head; trl: by TRL's
       DPOTrainer), --precision.
Out:   one JSON line: tokens_per_second, or predictions (median), spread, peak_rss_bytes, first_step_seconds.
Keeps: random weights and fresh random tokens; a step is forward, backward, clip 1.0, AdamW."""
import argparse
import contextlib
import json
import os
import resource
import statistics
import sys
import time

QWEN = dict(
    num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, hidden_size=896,
    intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True,
    max_position_embeddings=32768, rms_norm_eps=1e-6,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6})
CASES = {  # family, model config, precision, LoRA rank (0: all weights train), B, T; of pairs:
    # answer, the share of a row that it is, and whether the reference is known
    "gpt2_124m": dict(family="gpt2", precision="fp32", rank=0, B=4, T=256, config=dict(
        n_layer=12, n_head=12, n_embd=768, n_positions=1024, vocab_size=50257)),
    "qwen_lora": dict(family="qwen2", precision="bf16", rank=16, B=1, T=512, config=QWEN),
    "tiny": dict(family="gpt2", precision="fp32", rank=0, B=64, T=240, config=dict(
        n_layer=4, n_head=4, n_embd=64, n_positions=240, vocab_size=257,
        bos_token_id=256, eos_token_id=256)),
    "mlm": dict(family="microbert", precision="fp32", rank=0, B=256, T=128, config=dict(
        layers=6, heads=8, d=16, dropout=0.1, vocab=10005, positions=128)),
    "llada": dict(family="llada", precision="fp32", rank=0, B=16, T=256, config=dict(
        layers=4, heads=4, d=128, ffn=256, vocab=69, positions=256)),
    "ad": dict(family="transitions", precision="fp32", rank=0, B=512, T=164, unit="predictions", config=dict(
        layers=4, heads=4, d=64, dropout=0.0, positions=240)),
    "dpo": dict(family="qwen2", precision="bf16", rank=16, B=2, T=128, answer=0.5, known=False,
                config=QWEN),
    "dpo/cache": dict(family="qwen2", precision="bf16", rank=16, B=2, T=128, answer=0.5, known=True,
                      config=QWEN),
    "dpo/tiny": dict(family="llama", precision="fp32", rank=0, B=16, T=64, answer=1, known=True,
                     config=dict(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=64,
        intermediate_size=128, vocab_size=264, tie_word_embeddings=False, rms_norm_eps=1e-5,
        max_position_embeddings=128, bos_token_id=256, eos_token_id=256,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4})),
}
PRM = dict(family="prm", precision="fp32", rank=0, B=8, T=256, marks=4, records=10000, unroll=1, config=dict(
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=64, intermediate_size=128,
    vocab_size=264, tie_word_embeddings=False, rms_norm_eps=1e-6, max_position_embeddings=512,
    bos_token_id=256, eos_token_id=256, rope_parameters={"rope_type": "default", "rope_theta": 1e4}))
CASES |= {"prm": PRM, "prm/u5": dict(PRM, unroll=5), "prm/plain": dict(PRM, unroll=0)}
CASES["ad/dropout"] = dict(CASES["ad"], config=dict(CASES["ad"]["config"], dropout=0.1))
HIDDEN = 18  # words of a text of 126, its 0.15
WARM = 2  # steps left out, in addition to the first
LEAST = 5  # steps timed, however long they take


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("case", choices=CASES)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--mode", choices=("eager", "compile", "rows", "rows-compile", "trl"),
                   default="eager")
    p.add_argument("--precision", choices=("fp32", "bf16", "autocast"),
                   help="bf16: weights bf16, fp32 adapters as in PEFT; autocast: and autocast")
    p.add_argument("--adamw", choices=("fused", "foreach"), default="fused")
    return p.parse_args()


def build(case, precision, mode):
    """The model, the function of a batch that gives its loss, and the size of the vocabulary."""
    import torch
    rows = mode.startswith("rows")
    if case["family"] == "microbert":
        from microbert import MicroBert
        model = MicroBert(rows=rows, **case["config"]).train()
        return model, compiled(model, mode), case["config"]["vocab"]
    if rows:
        sys.exit("rows: of a masked language model")
    if case["family"] == "llada":
        from llada import Llada
        model = Llada(**case["config"])
        return model, compiled(model, mode), case["config"]["vocab"]
    if case["family"] == "transitions":
        from transitions import Transitions
        model = Transitions(**case["config"]).train()
        return model, compiled(model, mode), 0
    if mode == "trl" and not ("known" in case and case["rank"]):
        sys.exit("trl: of pairs, with adapters")
    import transformers
    transformers.logging.set_verbosity_error()
    if case["family"] == "prm":
        from reward import Rewards, Scores
        config = transformers.Qwen2Config(use_cache=False, **case["config"])
        model = Scores(transformers.Qwen2Model._from_config(config, attn_implementation="sdpa")).train()
        return model, Rewards(model, compiled(model, mode), case, config.vocab_size), config.vocab_size
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    if case["family"] == "gpt2":
        config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                         use_cache=False, **case["config"])
    else:
        kind = {"qwen2": transformers.Qwen2Config, "llama": transformers.LlamaConfig}
        config = kind[case["family"]](use_cache=False, **case["config"])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype,
                                                          attn_implementation="sdpa")
    model.train()
    if case["rank"]:
        import peft
        lora = peft.LoraConfig(r=case["rank"], lora_alpha=2 * case["rank"], lora_dropout=0.0,
                               target_modules="all-linear", task_type="CAUSAL_LM")
        if mode == "trl":
            from preference import trl_loss
            return *trl_loss(model, lora, case["known"]), config.vocab_size
        model = peft.get_peft_model(model, lora).train()
    if "known" in case:
        from preference import eager
        if not case["known"]:
            sys.exit(f"{mode}: its reference is known; want trl")
        return model, eager(compiled(model, mode)), config.vocab_size
    run = compiled(model, mode)
    return model, lambda **inputs: run(**inputs).loss, config.vocab_size


def compiled(model, mode):
    import torch
    return torch.compile(model) if mode.endswith("compile") else model


def versions(mode):
    from importlib.metadata import version
    names = ("torch", "transformers", "peft", "numpy") + (("trl",) if mode == "trl" else ())
    return {name: version(name) for name in names}


def batch(case, vocab):
    """What the model's forward takes; labels of a causal model come shifted, as ours do: every
    position has a target."""
    import torch
    B, T = case["B"], case["T"]
    if case["family"] == "transitions":
        import transitions
        return transitions.batch(B, T)
    ids = torch.randint(0, vocab, (B, T))
    if "known" in case:
        answer = (torch.arange(T) >= T - case["answer"] * T).long().repeat(B, 1)
        known = dict(ref_chosen_logps=torch.full((B // 2,), -5.0),
                     ref_rejected_logps=torch.full((B // 2,), -5.0)) if case["known"] else {}
        return dict(input_ids=ids, attention_mask=torch.ones_like(ids), completion_mask=answer,
                    **known)
    if case["family"] == "llada":
        p = torch.rand(B, 1).clamp(min=1e-3).expand(B, T)
        hidden = torch.rand(B, T) < p
        return dict(ids=ids.masked_fill(hidden, vocab - 1), labels=ids, hidden=hidden, p=p)
    labels = torch.randint(0, vocab, (B, T))
    if case["family"] != "microbert":
        return dict(input_ids=ids, labels=ids, shift_labels=labels)
    hidden = torch.zeros(B, T, dtype=torch.bool)
    hidden[:, 1:-1].scatter_(1, torch.rand(B, T - 2).topk(HIDDEN).indices, True)
    return dict(ids=ids, labels=labels.masked_fill(~hidden, -100), lengths=torch.full((B,), T))


def round_of(case):
    """Steps timed as one, as ours are: those to an update of another kind."""
    return case.get("unroll") or 1


def run(args, born):
    import torch
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    case = CASES[args.case]
    precision = args.precision or case["precision"]
    model, loss_of, vocab = build(case, precision, args.mode)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.1, **{args.adamw: True})
    cast = (torch.autocast("cpu", torch.bfloat16) if precision == "autocast"
            else contextlib.nullcontext())
    times, end = [], None
    while end is None or time.perf_counter() < end or len(times) < LEAST:
        seconds = 0
        for _ in range(round_of(case)):
            inputs = loss_of.batch() if case["family"] == "prm" else batch(case, vocab)
            begin = time.perf_counter()
            with cast:
                loss = loss_of(**inputs)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
            opt.step()
            opt.zero_grad(set_to_none=True)
            if case["family"] == "prm":
                loss_of.updated()
            loss.item()
            now = time.perf_counter()
            seconds += now - begin
        times.append(seconds)
        if len(times) == 1:
            first = time.time() - born
        if end is None and len(times) == 1 + WARM:
            end, times = now + args.seconds, []
    return case, precision, first, times


def main():
    born = process_start()
    args = arguments()
    case, precision, first, times = run(args, born)
    unit = case.get("unit", "tokens")
    work = case["B"] * (case["T"] if unit == "tokens" else 1) * round_of(case)
    rates = sorted(work / t for t in times)
    print(json.dumps({
        "case": args.case, "mode": args.mode, "precision": precision, "adamw": args.adamw,
        "threads": args.threads, "steps": len(times),
        f"{unit}_per_second": round(statistics.median(rates), 1),
        "spread": [round(rates[0], 1), round(rates[-1], 1)],
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "first_step_seconds": round(first, 3), "versions": versions(args.mode)}))


def process_start():
    """Seconds since the epoch at which this process began, so that imports count."""
    import psutil
    return psutil.Process().create_time()


if __name__ == "__main__":
    main()
