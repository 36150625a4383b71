#!/usr/bin/env python3
"""The other side of the GPU bench: a recipe's training by PyTorch as a careful user would write it.

In:    the text of a recipe's config room, or the word ceiling; --seconds, --mode eager|compile.
Out:   one JSON line: tokens_per_second (median), spread, first_step_seconds; ceiling: a line a kernel.
Keeps: random weights, fresh random tokens, fp32 weights under bf16 autocast (LoRA: a bf16 base, fp32
       adapters as PEFT makes them), SDPA; a step is forward, backward, clip 1.0, fused AdamW. Out of
       memory: half the sequences at a time and twice the micro-batches, so a step stays the same."""
import argparse
import json
import statistics
import time

from gpu_table import config

WARM = 3  # steps left out, in addition to the first
LEAST = 5  # steps timed, however long they take


def process_start():
    """Seconds since the epoch at which this process began, so that imports count."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as f:
        up = float(f.read().split()[0])
    return time.time() - (up - ticks / 100)


def hf_config(c):
    import transformers
    i = {k: int(c["model." + k]) for k in
         ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "positions")}
    if c["model.family"] == "gpt2":
        return transformers.GPT2Config(
            n_layer=i["layers"], n_head=i["heads"], n_embd=i["hidden"], n_positions=i["positions"],
            vocab_size=i["vocab"], resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
            bos_token_id=i["vocab"] - 1, eos_token_id=i["vocab"] - 1)
    if c["model.family"] != "qwen2":
        raise SystemExit(f"no peer for family {c['model.family']}")
    return transformers.Qwen2Config(
        num_hidden_layers=i["layers"], num_attention_heads=i["heads"],
        num_key_value_heads=i["kv_heads"], hidden_size=i["hidden"], intermediate_size=i["ffn"],
        vocab_size=i["vocab"], max_position_embeddings=i["positions"],
        tie_word_embeddings=c["model.tied"] == "true", rms_norm_eps=float(c["model.norm_eps"]),
        rope_parameters={"rope_type": "default", "rope_theta": float(c["model.rope_theta"])},
        use_cache=False)


def build(c):
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    rank = int(c["lora.rank"])
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(
            hf_config(c), dtype=torch.bfloat16 if rank else torch.float32,
            attn_implementation="sdpa")
        if rank:
            import peft
            model = peft.get_peft_model(model, peft.LoraConfig(
                r=rank, lora_alpha=float(c["lora.alpha"]), lora_dropout=float(c["lora.dropout"]),
                target_modules="all-linear", task_type="CAUSAL_LM"))
    if c["memory.recompute"] == "block":
        model.gradient_checkpointing_enable(dict(use_reentrant=False))
        model.enable_input_require_grads()
    return model.train()


def step(torch, model, params, opt, shape, parts, vocab):
    for _ in range(parts):
        ids = torch.randint(0, vocab, shape, device="cuda")
        labels = torch.randint(0, vocab, shape, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            # Labels come shifted, as ours do: every position has a target.
            loss = model(input_ids=ids, labels=ids, shift_labels=labels).loss / parts
        loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
    opt.step()
    opt.zero_grad(set_to_none=True)
    loss.item()


def run(c, args, micro, born):
    import torch
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    total = int(c["batch.micro"]) * int(c["batch.accum"])
    model = build(c)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.1, fused=True)
    step_model = torch.compile(model) if args.mode == "compile" else model
    shape, vocab = (micro, int(c["seq.max"])), int(c["model.vocab"])
    times, end, first = [], None, 0.0
    while end is None or time.perf_counter() < end or len(times) < LEAST:
        begin = time.perf_counter()
        step(torch, step_model, params, opt, shape, total // micro, vocab)
        torch.cuda.synchronize()
        now = time.perf_counter()
        times.append(now - begin)
        if end is None and len(times) == 1:
            first = time.time() - born
        if end is None and len(times) == 1 + WARM:
            end, times = now + args.seconds, []
    return first, times, torch.cuda.max_memory_allocated()


def versions():
    from importlib.metadata import version
    return {name: version(name) for name in ("torch", "transformers", "peft")}


def train(args, born):
    import torch
    c = config(args.what)
    micro = int(c["batch.micro"])
    while True:
        try:
            first, times, peak = run(c, args, micro, born)
            break
        except torch.cuda.OutOfMemoryError:
            if micro % 2:
                raise
        micro //= 2                  # outside the handler: its traceback holds the tensors
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    tokens = int(c["batch.micro"]) * int(c["batch.accum"]) * int(c["seq.max"])
    rates = sorted(tokens / t for t in times)
    print(json.dumps({
        "mode": args.mode, "micro": micro, "steps": len(times),
        "tokens_per_second": round(statistics.median(rates), 1),
        "spread": [round(rates[0], 1), round(rates[-1], 1)], "peak_allocated_bytes": peak,
        "first_step_seconds": round(first, 3), "versions": versions()}))


def timed(torch, f):
    """Seconds of one call: median over 3 rounds of 20."""
    rounds = []
    for _ in range(4):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(20):
            f()
        b.record()
        b.synchronize()
        rounds.append(a.elapsed_time(b) / 20e3)
    return statistics.median(rounds[1:])


def ceiling():
    import torch
    n = 8192
    x = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    y = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    print(json.dumps({"kernel": f"gemm bf16 {n}^3",
                      "tflops": 2e-12 * n**3 / timed(torch, lambda: x @ y)}))
    del x, y
    for t in (2048, 4096, 8192):
        q, k, v = (torch.randn(16384 // t, 16, t, 128, device="cuda", dtype=torch.bfloat16,
                               requires_grad=True) for _ in range(3))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        flop = 2 * (16384 // t) * 16 * t * t * 128
        with torch.no_grad():
            s = timed(torch, lambda: sdpa(q, k, v, is_causal=True))
        print(json.dumps({"kernel": f"attention forward D 128 T {t} causal",
                          "tflops": 1e-12 * flop / s}))
        o = sdpa(q, k, v, is_causal=True)
        g = torch.randn_like(o)
        s = timed(torch, lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True))
        print(json.dumps({"kernel": f"attention backward D 128 T {t} causal",
                          "tflops": 2.5e-12 * flop / s}))


def main():
    born = process_start()
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("what")
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--mode", choices=("eager", "compile"), default="eager")
    args = p.parse_args()
    if args.what == "ceiling":
        ceiling()
    else:
        train(args, born)


if __name__ == "__main__":
    main()
