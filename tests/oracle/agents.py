#!/usr/bin/env python3
"""Makes tests/formats/templates/expected: conversations with tools as transformers renders them by chat templates.

Usage: agents.py TESTS_FOLDER                    (needs transformers, jinja2, tokenizers)
       agents.py --check TESTS_FOLDER GEN FOLDER...  the same rows by our program for all *.jinja of other folders, which
                                                 are not recorded: those of TRL, axolotl ...; differences are printed
       agents.py --again TESTS_FOLDER            whether the recorded ones are the same
       agents.py --row TESTS_FOLDER TEMPLATE N   text, ids and targets of row N (from 1), to find a difference
In:    templates/*.jinja, templates/rows.jsonl; the tokenizer of tests/tokenizer/qwen2 with the tokens of templates/tokens:
       of each template bos_token, eos_token, and what it writes in angle or square brackets.
Out:   a line for each template and loss: of each row ids/targets, or "-" where it is refused; then the first 16 digits of
       the SHA-256 of all rows as tests/formats prints them ("12 34* 56*").
Refused are rows that the template raises for, that it does not render as a whole (a content, a call or a tool may change
without another text), those with reasoning that it never reads, and those with an answer that is not in the text as it is
without the messages after it.
Targets: the assistant mask of transformers, if the template has one; else from the end of the prompt that asks for the answer
to the end of the conversation up to it. The date is 2024-07-26.
"""
import copy
import datetime
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile

import transformers.utils.chat_template_utils as utils
from transformers import PreTrainedTokenizerFast

logging.disable(logging.CRITICAL)
LOSSES = ("last", "assistant")


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


utils.datetime = Day


class Refused(Exception):
    pass


def special_tokens(text):
    """bos_token, eos_token, then what looks like a token of the template."""
    found = set(re.findall(r"<\|[A-Za-z_]+\|>|<｜[^<>{}' ]+｜>|<(?:start|end)_of_[a-z]+>|\[/?[A-Z]+(?:_[A-Z]+)*\]|"
                           r"\[\|[a-z]+\|\]|</?think>|</?tool_call>|</?tool_response>", text))
    eos = [t for t in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|return|>") if t in found]
    return ["<s>", eos[0] if eos else "</s>"] + sorted(found - {"<s>", "</s>"})


class Template:
    def __init__(self, tests, path):
        with open(path, newline="") as f:
            self.text = f.read()
        words = special_tokens(self.text)
        self.words = words
        self.tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(tests, "tokenizer", "qwen2", "tokenizer.json"))
        more = [w for w in dict.fromkeys(words) if self.tok.convert_tokens_to_ids(w) is None]
        self.tok.add_tokens(more, special_tokens=True)
        self.tok.bos_token, self.tok.eos_token = words[:2]
        self.read = re.sub(r"\{#.*?#\}", "", self.text, flags=re.S)
        self.marks = re.search(r"\{%[-+]?\s*generation\s*[-+]?%\}", self.text)

    def apply(self, messages, tools, **more):
        try:
            return self.tok.apply_chat_template(messages, tools=tools, chat_template=self.text, **more)
        except Exception as e:      # jinja2's, and what Python raises in a template
            raise Refused(str(e)) from e

    def render(self, messages, tools, prompt=False):
        if not messages:            # which apply_chat_template() does not take
            try:
                return utils.render_jinja_template([[]], tools=tools, chat_template=self.text, add_generation_prompt=prompt,
                                                   **self.tok.special_tokens_map)[0][0]
            except Exception as e:
                raise Refused(str(e)) from e
        return self.apply(messages, tools, tokenize=False, add_generation_prompt=prompt)

    def whole(self, text, messages, tools):
        """Raises if a part of the row is not in its text."""
        def same(change):
            m, t = copy.deepcopy(messages), copy.deepcopy(tools)
            change(m, t)
            try:
                return self.render(m, t) == text
            except Refused:
                return False
        for i, m in enumerate(messages):
            def content(ms, _, i=i):
                c = ms[i]["content"]
                if isinstance(c, list):
                    c[-1]["text"] += "QZX"
                else:
                    ms[i]["content"] = c + "QZX"
            if m.get("content") and same(content):
                raise Refused("content of message %d" % i)
            for k in range(len(m.get("tool_calls") or ())):
                def name(ms, _, i=i, k=k):
                    ms[i]["tool_calls"][k]["function"]["name"] += "QZX"
                if same(name):
                    raise Refused("call of message %d" % i)
        for k in range(len(tools or ())):
            def tool(_, t, k=k):
                t[k]["function"]["name"] += "QZX"
            if same(tool):
                raise Refused("tools")
        if any(m.get("reasoning_content") for m in messages) and not re.search(
                r"reasoning_content|['\".](thinking|reasoning)\b", self.read):
            raise Refused("reasoning")

    def end(self, part, whole):
        """Length of the beginning that both texts have, if the rest of part is the end of any text; else raises."""
        n = len(os.path.commonprefix([part, whole]))
        rest = part[n:]
        if not rest or (not rest.strip(" \n") and whole.endswith(rest)):
            return n
        for back in range(min(n, 63) + 1):
            rest = part[n - back:]
            if not whole.endswith(rest):
                break
            if rest in self.tok.get_added_vocab():
                return n - back
        raise Refused("an answer changes")

    def span(self, messages, tools, i, text):
        prompt, least = self.render(messages[:i], tools, True), None
        n = len(os.path.commonprefix([prompt, text]))
        if n < len(prompt):
            least = self.end(self.render(messages[:i], tools), text) if i else 0
            if n < least or not i:
                raise Refused("an answer is not asked for")
        after = len(text) if i + 1 == len(messages) else self.end(self.render(messages[:i + 1], tools), text)
        return n, after

    def row(self, row, loss):
        """Text, ids and targets; raises Refused."""
        messages = [{k: copy.deepcopy(v) for k, v in m.items() if v is not None} for m in row["messages"]]
        tools = row.get("tools")
        for m in messages:
            if isinstance(m.get("content"), list) and not re.search(r"['\"]text['\"]|\.text\b", self.text):
                m["content"] = "".join(p["text"] for p in m["content"])
        trains = [m.pop("train", True) for m in messages]
        text = self.render(messages, tools)
        self.whole(text, messages, tools)
        if loss == "last" and messages[-1]["role"] != "assistant":
            raise Refused("no answer")
        coded = self.tok(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = coded["input_ids"]
        wanted = [i for i, m in enumerate(messages) if m["role"] == "assistant" and trains[i] and
                  (loss == "assistant" or i + 1 == len(messages))]
        if self.marks:
            out = self.apply(messages, tools, return_dict=True, return_assistant_tokens_mask=True)
            assert out["input_ids"] == ids
            mask = out["assistant_masks"]
            # of the other answers
            if len(wanted) < sum(m["role"] == "assistant" for m in messages):
                answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
                marked = utils.render_jinja_template([messages], tools=tools, chat_template=self.text,
                                                     return_assistant_tokens_mask=True, **self.tok.special_tokens_map)[1][0]
                spans = [marked[answers.index(i)] for i in wanted] if len(marked) == len(answers) else [
                    self.own_span(messages, tools, i, text) for i in wanted]
                mask = [m and any(a < e and b < f for (a, f), (b, e) in
                                  ((s, o) for s in spans)) for m, o in zip(mask, coded["offset_mapping"])]
        else:
            spans = [self.span(messages, tools, i, text) for i in wanted]
            mask = [any(b < to and e > begin for begin, to in spans) for b, e in coded["offset_mapping"]]
        return text, ids, [bool(m) for m in mask]

    def own_span(self, messages, tools, i, text):
        """From the text of the messages before one to that with it."""
        try:
            begin = len(os.path.commonprefix([self.render(messages[:i], tools), text])) if i else 0
        except Refused:
            begin = 0
        last = i + 1 == len(messages)
        return begin, len(text) if last else len(os.path.commonprefix([self.render(messages[:i + 1], tools), text]))

    def lines(self, rows, loss):
        """Of each row its line in tests/formats; None: refused."""
        for r in rows:
            try:
                _, ids, mask = self.row(r, loss)
            except Refused:
                yield None
                continue
            yield None if loss and not any(mask[1:]) else " ".join("%d%s" % (t, "*" if m else "")
                                                                     for t, m in zip(ids, mask))


def summary(name, loss, lines):
    done = "".join(line + "\n" for line in lines if line is not None)
    counts = ["-" if line is None else "%d/%d" % (line.count(" ") + 1, line.count("*")) for line in lines]
    return "%s %s %s %s" % (name, loss, " ".join(counts), hashlib.sha256(done.encode()).hexdigest()[:16])


def read_rows(tests):
    with open(os.path.join(tests, "formats", "templates", "rows.jsonl")) as f:
        return [json.loads(line) for line in f]


def templates(folder):
    return sorted(n[:-6] for n in os.listdir(folder) if n.endswith(".jinja"))


def ours(gen, tests, t, rows, loss):
    """Lines of our program, a row each."""
    with tempfile.TemporaryDirectory() as folder:
        t.tok.backend_tokenizer.save(os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump({"bos_token": t.words[0], "eos_token": t.words[1]}, f)
        with open(os.path.join(folder, "chat_template.jinja"), "w", newline="") as f:
            f.write(t.text)
        for i, r in enumerate(rows):
            path = os.path.join(folder, "x.jsonl")
            with open(path, "w") as f:
                f.write(json.dumps(r, ensure_ascii=False))
            out = subprocess.run([gen, "pack", "-o", os.path.join(folder, "x.st"), "--max-length", "100000", "--loss-on", loss, "--chat", "template",
                                  "--tokenizer", os.path.join(folder, "tokenizer.json"), path], capture_output=True,
                                 text=True, check=False)
            if out.returncode:
                yield None, out.stderr.strip()
                continue
            from safetensors import safe_open
            with safe_open(os.path.join(folder, "x.st"), "np") as f:
                ids, mask = f.get_tensor("tokens"), f.get_tensor("mask")
            yield " ".join("%d%s" % (a, "*" if b else "") for a, b in zip(ids.tolist(), mask.tolist())), out.stdout


def check(tests, gen, *folders):
    rows, count, same, refused, wrong = read_rows(tests), 0, 0, 0, 0
    for folder in folders:
        for name in templates(folder):
            t, count = Template(tests, os.path.join(folder, name + ".jinja")), count + 1
            for loss in LOSSES:
                for i, (want, (got, why)) in enumerate(zip(t.lines(rows, loss), ours(gen, tests, t, rows, loss))):
                    same += want == got and got is not None
                    refused += want == got and got is None
                    if want != got:
                        wrong += 1
                        print("%s %s row %d: %s" % (name, loss, i + 1, why[:300] if got is None else "want " + str(want)[:60]))
    print("%d templates: %d rows equal, %d refused by both, %d differ" % (count, same, refused, wrong))
    return wrong > 0


def main(*args):
    if args[0] == "--check":
        return check(*args[1:])
    if args[0] == "--row":
        t = Template(args[1], os.path.join(args[1], "formats", "templates", args[2] + ".jinja"))
        for loss in LOSSES:
            print(loss, t.row(read_rows(args[1])[int(args[3]) - 1], loss))
        return 0
    tests = args[-1]
    folder, rows = os.path.join(tests, "formats", "templates"), read_rows(tests)
    to = tempfile.mkdtemp() if args[0] == "--again" else folder
    with open(os.path.join(to, "expected"), "w") as out, open(os.path.join(to, "tokens"), "w") as tokens:
        for name in templates(folder):
            t = Template(tests, os.path.join(folder, name + ".jinja"))
            known = set(t.tok.backend_tokenizer.get_vocab())
            base = set(PreTrainedTokenizerFast(tokenizer_file=os.path.join(tests, "tokenizer", "qwen2", "tokenizer.json"))
                       .backend_tokenizer.get_vocab())
            added = sorted(known - base, key=t.tok.convert_tokens_to_ids)
            tokens.write(" ".join([name] + t.words[:2] + added) + "\n")
            for loss in LOSSES:
                out.write(summary(name, loss, list(t.lines(rows, loss))) + "\n")
    return to != folder and subprocess.run(["diff", "-r", "-x", "*.jinja", "-x", "rows.jsonl", "-x", "sources", to, folder],
                                           check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
