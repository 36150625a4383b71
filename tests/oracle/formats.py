#!/usr/bin/env python3
"""Makes tests/formats/: files of the reference libraries that our readers and writers are compared with.

Usage: formats.py TESTS_FOLDER      (needs safetensors, numpy, tokenizers, jinja2, trl; tests/tokenizer must be there)
Out:   reference.safetensors; json_in.json and json_out.json (Python's json.dumps of it);
       rows/*.jsonl and what TRL's rules make of them, *.expected: a row a line, targets marked with a star.
"""
import itertools
import json
import os
import random
import re
import struct
import sys

import jinja2
import numpy as np
import safetensors
from tokenizers import Tokenizer
from trl.data_utils import common_prefix_length

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'"
          " + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' +"
          " message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0"
          " %}{% set content = '<|begin_of_text|>' + content %}{% endif %}{{ content }}{% endfor %}{% if"
          " add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
TEMPLATE = {"qwen2": CHATML, "llama3": LLAMA3}
EOS = {"qwen2": "<|im_end|>", "llama3": "<|eot_id|>", "gpt2": "<|endoftext|>"}

DECODE_B = [{"text": "The king and I."}, {"text": "ends already<|endoftext|>"}, {"text": " \n"}, {"text": "é 東京 \U0001f600"}]
PROMPTS = [
    {"prompt": "What is 2+2?", "completion": " 4"}, {"prompt": "What is", "completion": "n't it?"},
    {"prompt": "", "completion": "no prompt"}, {"prompt": "no completion ", "completion": ""},
    {"prompt": "line\n", "completion": "\nline"}, {"prompt": "é", "completion": "e\u0301 " + "x" * 40},
    {"prompt": "p" * 60 + " " + "q " * 30, "completion": "cut away entirely"},
    {"prompt": "Is it? ", "completion": "yes"}, {"prompt": " ", "completion": "the"},
]


def turn(role, content):
    return {"role": role, "content": content}


SYSTEM = "Be_brief."
PLAIN_PAIRS = [
    {"prompt": "What is 2+2?", "chosen": " 4", "rejected": " It is five."}, {"prompt": "What is", "chosen": "n't it?", "rejected": " it"},
    {"prompt": "", "chosen": "no prompt", "rejected": "none"}, {"prompt": "same", "chosen": " answer", "rejected": " answer"},
    {"prompt": "p" * 70, "chosen": "a", "rejected": "b"}, {"prompt": "line\n", "chosen": "x " * 60, "rejected": ""},
    {"chosen": "The sky is blue.", "rejected": "The sky is green."}, {"chosen": "é東京", "rejected": "é東東 "},
    {"instruction": "Add.", "input": "", "output": "3", "chosen": "3", "rejected": "4"},
    {"prompt": "line\n", "chosen": "\nmore", "rejected": "less"}, {"prompt": "Is it? ", "chosen": "(", "rejected": "the"},
]


CHATS = [
    [turn("user", "hi"), turn("assistant", "hello")],
    [turn("system", "Be good."), turn("user", "  2+2? \n"), turn("assistant", "\n\n4 "), turn("user", "sure?"),
     turn("assistant", "Yes.")],
    [turn("user", ""), turn("assistant", "")],
    [turn("user", "say <|im_end|> or <|eot_id|>"), turn("assistant", "<|im_start|>user\nno<|im_end|>")],
    [turn("user", "\u00a0\u3000wide\u2003"), turn("assistant", "\u001f\u0085ünï \u200b")],
    [turn("assistant", "alone")],
]


def save_tensors(path):
    rng = np.random.default_rng(3)
    tensors = {
        "model.embed.weight": ("float32", (3, 4), (np.arange(12) / 8).astype("<f4").tobytes()),
        "model.a.weight": ("float32", (2,), np.array([1.5, -2.25], "<f4").tobytes()),
        "model.norm": ("bfloat16", (5,), rng.integers(0, 1 << 16, 5, dtype="<u2").tobytes()),
        "half": ("float16", (2, 2), np.array([1, 0.5, 65504, -6e-8], "<f2").tobytes()),
        "odd": ("uint8", (3,), bytes([1, 2, 255])), "odder": ("uint8", (1, 1, 1), bytes([9])),
        "flags": ("bool", (2,), bytes([1, 0])), "long": ("int64", (2,), struct.pack("<qq", -1, 1 << 60)),
        "double": ("float64", (1,), struct.pack("<d", 0.1)), "scalar": ("int32", (), struct.pack("<i", 7)),
        "empty": ("float32", (0, 5), b""), "naïve \"name\"\n": ("int16", (2,), struct.pack("<hh", 1, -1)),
    }
    keep = {k: np.frombuffer(b, np.uint8).copy() for k, (_, _, b) in tensors.items()}
    data = safetensors.serialize({k: safetensors.TensorSpec(dtype=d, shape=s, data_ptr=keep[k].ctypes.data, data_len=len(b))
                                  for k, (d, s, b) in tensors.items()}, {"format": "pt"})
    with open(path, "wb") as f:
        f.write(data)


def save_json(folder):
    rng = random.Random(5)
    numbers = [0, -0.0, 1, 1.0, -1, 1e-05, 1e-4, 0.0001234, 1e5, 1e15, 1e16, 1e17, 1e22, 1.5e300, 5e-324, 0.1, 1 / 3, 2**53,
               2**53 + 1, 2**63, -2**63, 10**30, 123456789012345678, 1234567890123456.7, 99999999999999990.0, 0.3, 1e-06]
    numbers += [struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0] for _ in range(400)]
    numbers += [round(rng.uniform(-1e4, 1e4), rng.randrange(8)) for _ in range(200)]
    numbers = [x for x in numbers if x == x and abs(x) != float("inf")]
    value = {"b": [], "a": {}, "zeta": numbers, "é": "naïve \U0001f600 \"quoted\" \\ / \b\f\n\r\t \x1f \x7f", "B": {"y": [[1, [2.5]], {}], "x": None},
             "t": True, "f": False, "": "empty key", "architectures": ["LlamaForCausalLM"], "rope": {"rope_theta": 10000.0}}
    text = json.dumps(value)
    with open(os.path.join(folder, "json_in.json"), "w") as f:
        f.write(text)
    with open(os.path.join(folder, "json_out.json"), "w") as f:
        f.write(json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n")


class Bytes:
    """The byte vocabulary."""

    def encode(self, text, add_special_tokens):
        self.ids = list(text.encode())
        return self


def row_line(ids, mask, length):
    ids, mask = ids[:length], mask[:length]
    return " ".join("%d%s" % (i, "*" if m else "") for i, m in zip(ids, mask)) if any(mask[1:]) else None


def ended(text, eos):
    return text if text.endswith(eos) else text + eos


def prompt_ids(tok, name, prompt, completion):
    """Ids of both, and how many of the prompt's they begin with."""
    if name == "bytes":
        return list((prompt + completion).encode()) + [256], len(prompt.encode())
    ids = tok.encode(ended(prompt + completion, EOS[name]), add_special_tokens=True).ids
    return ids, common_prefix_length(tok.encode(prompt, add_special_tokens=True).ids, ids)


def prompt_row(tok, name, row, length):
    ids, n = prompt_ids(tok, name, row["prompt"], row["completion"])
    return row_line(ids, [i >= n for i in range(len(ids))], length)


def chat_ids(tok, name, prompt, completion):
    """Ids of both lists of messages, and how many of the prompt's they begin with."""
    template = jinja2.Environment().from_string(TEMPLATE[name])
    head = template.render(messages=prompt, add_generation_prompt=True)
    if not prompt and name == "llama3":    # the template forgets BOS when the generation prompt comes first
        head = "<|begin_of_text|>" + head
    ids = tok.encode(template.render(messages=prompt + completion), add_special_tokens=False).ids
    return ids, common_prefix_length(tok.encode(head, add_special_tokens=False).ids, ids)


def chat_row(tok, name, prompt, completion, length):
    ids, n = chat_ids(tok, name, prompt, completion)
    return row_line(ids, [i >= n for i in range(len(ids))], length)


def assistant_row(tok, name, messages, length):
    """Every assistant turn from after its header to its end."""
    template = jinja2.Environment().from_string(TEMPLATE[name])
    ids = tok.encode(template.render(messages=messages), add_special_tokens=False).ids
    mask = [0] * len(ids)
    for i, m in enumerate(messages):
        if m["role"] != "assistant":
            continue
        head = template.render(messages=messages[:i], add_generation_prompt=True)
        if not i and name == "llama3":
            head = "<|begin_of_text|>" + head
        start = common_prefix_length(tok.encode(head, add_special_tokens=False).ids, ids)
        end = len(tok.encode(template.render(messages=messages[:i + 1]), add_special_tokens=False).ids)
        mask[start:end] = [1] * (end - start)
    return row_line(ids, mask, length)


CHAT_PAIRS = [
    {"prompt": CHATS[1][:2], "chosen": [turn("assistant", "4")], "rejected": [turn("assistant", "\n5 ")]},
    {"chosen": CHATS[1], "rejected": CHATS[1][:4] + [turn("assistant", "No.")]},
    {"question": "A stone falls 20 m. How long?", "chosen": "2.0 s", "rejected": "4.0 s"},
    {"prompt": [turn("user", "w " * 100)], "chosen": [turn("assistant", "a")], "rejected": [turn("assistant", "b")]},
]
ALPACA = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
          "### Instruction:\n%s\n\n### Response:\n")


def pair_prompt(row):
    """Prompt and both answers: strings, or lists of messages; without a prompt what both begin with (TRL's extract_prompt)."""
    chosen, rejected = row["chosen"], row["rejected"]
    if "question" in row:
        asked = [turn("system", SYSTEM), turn("user", "Question: " + row["question"])]
        return asked, [turn("assistant", chosen)], [turn("assistant", rejected)]
    if "instruction" in row:
        return ALPACA % row["instruction"], chosen, rejected
    if "prompt" in row:
        return row["prompt"], chosen, rejected
    n = next(i for i in range(min(len(chosen), len(rejected))) if chosen[i] != rejected[i])
    n -= chosen[n - 1] == " "
    return chosen[:n], chosen[n:], rejected[n:]


def pair_rows(tok, name, row, length):
    prompt, chosen, rejected = pair_prompt(row)
    encode = prompt_ids if isinstance(prompt, str) else chat_ids
    rows = [encode(tok, name, prompt, answer) for answer in (chosen, rejected)]
    n = max(1, min(row[1] for row in rows))      # nothing predicts the first token
    lines = [row_line(ids, [i >= n for i in range(len(ids))], length) for ids, _ in rows]
    return None if None in lines else "chosen %s\nrejected %s" % tuple(lines)


STEPS_MARK = "<|endoftext|>"             # a token that the tests' tokenizers have; for <extra_0>
STEPS_SYSTEM = "Judge."
FIVE = "### Step 1: plan\nAdd.\n### Step 2: b\nTwo\nlines\n### Step 3: x\nthree\n  ### step 4:\nfour\n### STEP 5: e\nfive\n"


def chain(*steps):
    return "".join("### Step %d: t\n%s\n" % (i + 1, s) for i, s in enumerate(steps))


def pis(*values):
    return [{} if v is None else {"pi": v} for v in values]


STEPS = [
    {"informal_prefix": "Show 3+4=7", "cot_response": FIVE, "cot_steps": pis(0.9, 0, 1, 1), "meta_label": 1},
    {"formal_statement": "theorem", "cot_response": "hm\n" + FIVE, "domain": "b", "id": "x 7", "meta_label": 0,
     "cot_steps": {"2": {"pi": 0.25}, "10": {"pi": 0.125}, "1": {"pi": 0.5}, "3": {"pi": 1}}},
    {"informal_prefix": "", "formal_statement": "f", "cot_response": FIVE.replace("\n", "\r\n"), "cot_steps": pis(0, 0, 0, 0.25, 1),
     "id": 12, "meta_label": False, "noisy": True},
    {"cot_response": chain("a", "b", "c", "d", "e ### Step 6: no header"), "cot_steps": pis(1, 0, 1, 0.5), "domain": "a"},
    {"informal_prefix": "four steps", "cot_response": chain("a", "b", "c", "d"), "cot_steps": pis(1, 1, 1, 1)},
    {"informal_prefix": "six", "cot_response": chain("a", "b", "c", "d", "e", "f"), "cot_steps": pis(1, 1, 1, 1, 1)},
    {"informal_prefix": "no steps", "cot_response": "Add.\n", "cot_steps": pis(1, 1, 1, 1)},
    {"informal_prefix": "all zero", "cot_response": chain(*"abcde"), "cot_steps": pis(0, 0, 0, 0, 1)},
    {"informal_prefix": "too few", "cot_response": chain(*"abcde"), "cot_steps": pis(1, 1, 1)},
    {"informal_prefix": "a gap", "cot_response": chain(*"abcde"), "cot_steps": pis(1, 1, None, 1, 1)},
    {"informal_prefix": "unlabelled", "cot_response": chain(*"abcde"), "meta_label": 1.0},
    {"informal_prefix": "empty", "cot_response": chain("a", "b", " ", "d", "e"), "cot_steps": pis(1, 1, 1, 1)},
    {"informal_prefix": "the mark", "cot_response": chain("a", "b" + STEPS_MARK, "c", "d", "e"), "cot_steps": pis(1, 1, 1, 1)},
    {"informal_prefix": "cut behind the marks", "cot_response": chain("a", "b", "c", "d", "e " * 90), "cot_steps": pis(1, 1, 1, 1)},
    {"informal_prefix": "cut before the last mark", "cot_response": chain("a", "b", "c", "d " * 90, "e"), "cot_steps": pis(1, 1, 1, 1)},
    {"prompt": "TRL", "completions": ["a", " b\n", "c", "d"], "labels": [True, True, False, True], "domain": "b"},
    {"prompt": "TRL, all wrong", "completions": ["a", "b", "c", "d"], "labels": [0, 0, 0, 0]},
    {"prompt": "TRL, right", "completions": ["a", "b", "c", "d"], "labels": [True] * 4},
    {"prompt": "TRL, three", "completions": ["a", "b", "c"], "labels": [True] * 3},
]
CANDIDATES = [
    {"informal_prefix": "P", "candidates": [FIVE, chain("a", "b"), chain(*"abcde")], "true_false": [True, True, False], "id": "q"},
    {"candidates": [chain(*"abcdef")]},
    {"formal_statement": "Q", "candidates": [chain(*"edcba")], "domain": "c"},
]


def steps_split(text):
    """Lines up to a header belong to the step of the header before."""
    steps, inside = [], False
    for line in text.split("\n"):
        if re.match(r"[ \t]*###[ \t]*step[ \t]*[0-9]+[ \t]*:", line, re.I):
            steps.append([])
            inside = True
        elif inside:
            steps[-1].append(line)
    return ["\n".join(s).strip() for s in steps]


def steps_row(tok, problem, steps, marks, labels, length, zeros):
    """Ids with a star at each mark, and the labels; None: the rules leave it out."""
    want = 4
    if marks != want or any(not s for s in steps) or (labels is not None and (len(labels) < want or zeros and not any(labels[:want]))):
        return None
    text = jinja2.Environment().from_string(CHATML).render(messages=[
        turn("system", STEPS_SYSTEM), turn("user", problem), turn("assistant", "{ANSWER}")])
    head, tail = text.split("{ANSWER}")
    answer = STEPS_MARK.join(steps) + (STEPS_MARK if marks == len(steps) else "")
    ids = tok.encode(head + answer + tail, add_special_tokens=False).ids
    mark = tok.token_to_id(STEPS_MARK)
    places = [i for i, t in enumerate(ids) if t == mark]
    if len(places) != want or places[-1] >= length:
        return None
    line = " ".join("%d%s" % (t, "*" if i in places else "") for i, t in enumerate(ids[:length]))
    return line + " rewards" + "".join(" %g" % x for x in (labels or [])[:want])


def steps_rows(tok, length, unlabelled):
    lines, domains = [], {}
    for number, r in enumerate(STEPS, 1):
        if "completions" in r:
            steps, problem, labels = [s.strip() for s in r["completions"]], r["prompt"], [float(x) for x in r["labels"]]
            marks, outcome = len(steps), all(labels)
        else:
            steps, outcome = steps_split(r["cot_response"]), r.get("meta_label", 1)
            problem = r.get("informal_prefix") or r.get("formal_statement") or "Problem"
            pi = r.get("cot_steps")
            if isinstance(pi, dict):
                pi = [pi[k] for k in sorted(pi, key=int)]
            labels = None if pi is None else [float(s["pi"]) for s in itertools.takewhile(lambda s: "pi" in s, pi)]
            marks = len(steps) - 1
        line = steps_row(tok, problem, steps, marks, labels, length, "cot_steps" in r)
        if line is None or labels is None and not unlabelled:
            continue
        domain = domains.setdefault(r["domain"], len(domains)) if "domain" in r else -1
        lines.append("%s outcome %d domain %d id %s" % (line, outcome, domain, r.get("id", number)))
    return lines


def candidates_rows(tok, length):
    lines, domains = [], {}
    for question, r in enumerate(CANDIDATES):
        problem = r.get("informal_prefix") or r.get("formal_statement") or "Problem"
        for k, text in enumerate(r["candidates"]):
            steps = steps_split(text)
            line = steps_row(tok, problem, steps, len(steps) - 1, None, length, True)
            if line is None:
                continue
            right = int(r["true_false"][k]) if "true_false" in r else -1
            domain = domains.setdefault(r["domain"], len(domains)) if "domain" in r else -1
            lines.append("%s outcome %d domain %d id %s/%d question %d right %d" % (
                line, right != 0, domain, r.get("id", question + 1), k + 1, question, right))
    return lines


def save_rows(folder, tests):
    def save(name, rows, expected):
        if rows is not None:
            with open(os.path.join(folder, name.split(".")[0] + ".jsonl"), "w") as f:
                f.writelines(json.dumps(r) + "\n" for r in rows)
        with open(os.path.join(folder, name + ".expected"), "w") as f:
            f.writelines(e + "\n" for e in expected if e is not None)

    chats = [{"messages": c} for c in CHATS]
    split = [{"prompt": c[:n], "completion": c[n:]} for c, n in zip(CHATS, (1, 2, 1, 1))] + [{"prompt": [], "completion": CHATS[5]}]
    for name in ("bytes", "gpt2", "llama3", "qwen2"):
        tok = Bytes() if name == "bytes" else Tokenizer.from_file(os.path.join(tests, "tokenizer", name, "tokenizer.json"))
        texts = []
        for r in DECODE_B:
            ids = list(r["text"].encode()) + [256] if name == "bytes" else tok.encode(
                ended(r["text"], EOS[name]), add_special_tokens=True).ids
            texts.append(" ".join("%d*" % i for i in ids))
        save("text." + name, DECODE_B, texts)
        save("pairs." + name, PLAIN_PAIRS, [pair_rows(tok, name, r, 64) for r in PLAIN_PAIRS])
        save("prompt." + name, PROMPTS, [prompt_row(tok, name, r, 64) for r in PROMPTS])
        if name in TEMPLATE:
            save("talks." + name, CHAT_PAIRS, [pair_rows(tok, name, r, 100) for r in CHAT_PAIRS])
            save("chat." + name, chats, [chat_row(tok, name, c[:-1], c[-1:], 100) for c in CHATS])
            save("assistant." + name, chats, [assistant_row(tok, name, c, 100) for c in CHATS])
            save("list." + name, split, [chat_row(tok, name, r["prompt"], r["completion"], 100) for r in split])
        if name == "qwen2":
            save("steps." + name, STEPS, steps_rows(tok, 100, False))
            save("unlabelled." + name, STEPS, steps_rows(tok, 100, True))
            save("candidates." + name, CANDIDATES, candidates_rows(tok, 100))


if __name__ == "__main__":
    formats = os.path.join(sys.argv[1], "formats")
    save_tensors(os.path.join(formats, "reference.safetensors"))
    save_json(formats)
    save_rows(os.path.join(formats, "rows"), sys.argv[1])
