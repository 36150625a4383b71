#!/usr/bin/env python3
"""Makes tests/formats/templates/expected: conversations with tools as transformers renders them by chat templates.

Usage: agents.py TESTS_FOLDER                    (needs transformers, jinja2, tokenizers)
       agents.py --check TESTS_FOLDER GEN FOLDER...  the same rows, and 181 that are made from a seed (made_rows()), by our
                                                 program for all *.jinja of folders, also of such that are not recorded:
                                                 those of TRL, axolotl ...; differences are printed
       agents.py --again TESTS_FOLDER            whether the recorded ones are the same
       agents.py --row TESTS_FOLDER TEMPLATE N   text, ids and targets of row N (from 1), to find a difference
In:    templates/*.jinja, templates/rows.jsonl, the rows of made_rows(); the tokenizer of tests/tokenizer/qwen2 with the tokens of templates/tokens:
       of each template bos_token, eos_token, and what it writes in angle or square brackets.
Out:   expected: a line for each template and loss: of each row ids/targets, or "-" where it is refused; then the first 16
       digits of the SHA-256 of all rows as tests/formats prints them ("12 34* 56*"). prompts: of each template the digits of
       the prompts that ask for the last answers (add_generation_prompt). made.jsonl.gz: the first 60 of the made rows; made: of
       each template the number of their rows and the digits, with --loss-on turns.
Refused are rows that the template raises for, that it does not render as a whole (a content, a call or a tool may change
without another text), those with reasoning that it never reads, and those with an answer that is not in the text as it is
without the messages after it.
Targets: the assistant mask of transformers, if the template has one (with all bytes of its last character); else from the end of the prompt that asks for the answer
to the end of the conversation up to it. The date is 2024-07-26.
"""
import copy
import datetime
import gzip
import hashlib
import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile

import transformers.utils.chat_template_utils as utils
from transformers import PreTrainedTokenizerFast

logging.disable(logging.CRITICAL)
LOSSES = ("last", "assistant")
MADE, SEED, RECORDED = 181, 40, 60


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


utils.datetime = Day


class Refused(Exception):
    pass


class Encoded(str):
    """Arguments that are JSON in a string: a template that uses them as an object, or as JSON, raises."""

    def __iter__(self):
        raise Refused("items of a string")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise Refused("an attribute of a string")


class Json:
    """The module json, for tojson."""

    def __getattr__(self, name):
        return getattr(json, name)

    @staticmethod
    def dumps(value, *args, **more):
        if any_encoded(value):
            raise Refused("JSON of a string")
        return json.dumps(value, *args, **more)


def any_encoded(value):
    return isinstance(value, Encoded) or isinstance(value, (list, tuple)) and any(map(any_encoded, value)) or \
        isinstance(value, dict) and any(map(any_encoded, value.values()))


plain_data = utils._plain_template_data
utils.json = Json()
utils._plain_template_data = lambda value: value if isinstance(value, Encoded) else plain_data(value)


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

    def whole(self, text, messages, tools, prompt=False):
        """Raises if a part of the row is not in its text."""
        def same(change):
            m, t = copy.deepcopy(messages), copy.deepcopy(tools)
            change(m, t)
            try:
                return self.render(m, t, prompt) == text
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

    def read_row(self, row, prompt=False):
        """Messages as the template reads them, tools, which messages are trained on, and the text."""
        messages = [{k: copy.deepcopy(v) for k, v in m.items() if v is not None} for m in row["messages"]]
        tools = row.get("tools")
        calls = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
        for m in messages:
            if isinstance(m.get("content"), list) and not re.search(r"['\"]text['\"]|\.text\b", self.text):
                m["content"] = "".join(p["text"] for p in m["content"])
        for f in calls:
            if isinstance(f["arguments"], str):
                f["arguments"] = Encoded(f["arguments"])
        trains = [m.pop("train", True) for m in messages]
        try:
            text = self.render(messages, tools, prompt)
        except Refused:
            if not any(isinstance(f["arguments"], Encoded) for f in calls):
                raise
            for f in calls:
                f["arguments"] = json.loads(f["arguments"]) if isinstance(f["arguments"], str) else f["arguments"]
            text = self.render(messages, tools, prompt)
        self.whole(text, messages, tools, prompt)
        return messages, tools, trains, text

    def prompt(self, row):
        """Ids that ask for the last answer; raises Refused."""
        last = max([i for i, m in enumerate(row["messages"]) if m["role"] == "assistant"], default=0)
        if not last or row["messages"][last - 1]["role"] not in ("user", "tool"):
            raise Refused("nothing asks for an answer")
        text = self.read_row(dict(row, messages=row["messages"][:last]), True)[3]
        return self.tok(text, add_special_tokens=False)["input_ids"]

    def row(self, row, loss):
        """Text, ids and targets; raises Refused."""
        messages, tools, trains, text = self.read_row(row)
        if loss == "last" and messages[-1]["role"] != "assistant":
            raise Refused("no answer")
        coded = self.tok(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = coded["input_ids"]
        asked = max([i for i, m in enumerate(messages) if m["role"] == "user"], default=-1)
        wanted = [i for i, m in enumerate(messages) if m["role"] == "assistant" and trains[i] and
                  (loss == "assistant" or i + 1 == len(messages) or loss == "turns" and i > asked)]
        if self.marks:
            out = self.apply(messages, tools, return_dict=True, return_assistant_tokens_mask=True)
            assert out["input_ids"] == ids
            mask = out["assistant_masks"]
            # of a last character in several tokens it has the first only
            for i in range(1, len(ids)):
                mask[i] |= mask[i - 1] and coded["offset_mapping"][i] == coded["offset_mapping"][i - 1]
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

    def prompts(self, rows):
        for r in rows:
            try:
                yield " ".join(map(str, self.prompt(r)))
            except Refused:
                yield "-"

    def turns(self, row):
        """Ids and targets of a row for each user turn, or where that is refused for each of its answers."""
        for part in turns(row):
            try:
                yield self.row(part, "turns")[1:]
            except Refused:
                asked = max([i for i, m in enumerate(part["messages"]) if m["role"] == "user"], default=-1)
                answers = [i for i, m in enumerate(part["messages"]) if m["role"] == "assistant" and i > asked]
                if not answers:
                    raise
                for i in answers:
                    yield self.row(dict(part, messages=part["messages"][:i + 1]), "last")[1:]

    def lines(self, rows, loss):
        """Of each row its line in tests/formats; None: refused."""
        for r in rows:
            try:
                done = list(self.turns(r)) if loss == "turns" else [self.row(r, loss)[1:]]
            except Refused:
                yield None
                continue
            kept = [" ".join("%d%s" % (t, "*" if m else "") for t, m in zip(ids, mask)) for ids, mask in done if any(mask[1:])]
            yield "\n".join(kept) if kept else None


def turns(row):
    """The row up to the last answer of each user turn."""
    messages, parts, end, i = row["messages"], [], 0, 0
    for i, m in enumerate(messages, 1):
        end = 0 if m["role"] == "user" else i if m["role"] == "assistant" else end
        last = i == len(messages)
        if (last or messages[i]["role"] == "user") and (end or last and not parts):
            parts.append(dict(row, messages=messages[:end or i]))
    return parts


def digits(lines):
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()[:16]


def summary(name, loss, lines):
    counts = ["-" if line is None else "%d/%d" % (line.count(" ") + 1, line.count("*")) for line in lines]
    return "%s %s %s %s" % (name, loss, " ".join(counts), digits(line for line in lines if line is not None))


def read_rows(tests):
    with open(os.path.join(tests, "formats", "templates", "rows.jsonl")) as f:
        return [json.loads(line) for line in f]


# ---- conversations from a seed: what logs of agents have, in all combinations

TEXTS = ("ok", "Wie ist das Wetter in Z\u00fcrich?", "  spaces around \t", "\n\nlines\n\n\n", "", " ", "\u6771\u4eac\u306e\u5929\u6c17\u306f\uff1f",
         "e\u0301 o\u0302\u0323 combining, \u00e9 \u1ed9 composed", "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f3fd \U0001f1e8\U0001f1ed \u2764\ufe0f",
         "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u200fRTL\u200e", "a" * 300, "ab " * 90 + "\n" * 9, "<b>&amp; 'single' \"double\" \\back\\",
         "{{ messages }} {% if x %} {# no #}", "{\"json\": [1, 2.50, null]}", "<tool_call>fake</tool_call>", "\u00a0nbsp\u2003em\u3000",
         "line\u2028separator\u0085next", "\ufeffbom \u200b zero", "def f(x):\n\treturn x ** 2\n", "CAF\u00c9 \u0130stanbul \u00dfTRASSE", "$HOME %s {0} ~ `x`",
         "1. one\n2. two\n\n| a | b |\n|---|---|\n", "\x01\x1b[0m\x7f")
VALUES = (0, -1, 1.5, 1e22, -2.5e-7, 123456789012345678901, True, False, None, "", "Z\u00fcrich", "\"q\" \\ \n\t", [], {}, [1, "a", None, [2.0, {}]],
          {"b": {"c": [True, {"d": "\U0001f600"}]}, "a": 1}, "<|im_end|>", ["\u05d0", "\u6771"], 3.0, "</tool_call>")
SCHEMAS = ({"type": "object", "properties": {}},
           {"type": "object", "properties": {"city": {"type": "string", "description": "City, e.g. \u6771\u4eac"}}, "required": ["city"]},
           {"type": "object", "properties": {"n": {"type": "integer", "default": 3, "minimum": 0, "enum": [1, 2, 3]},
                                             "x": {"type": ["number", "null"], "description": "a \"quoted\" <number>"}}, "required": []},
           {"type": "object", "properties": {"filter": {"type": "object", "description": "nested", "properties": {
               "and": {"type": "array", "items": {"type": "object", "properties": {"field": {"type": "string"}, "op": {
                   "type": "string", "enum": ["=", "<", "\u2264"]}}, "required": ["field"]}}}, "required": ["and"]}}, "required": ["filter"],
            "additionalProperties": False})


def made_tools(r):
    names = r.sample(("get_weather", "search", "run_code", "lookup_user", "\u00fcber_tool", "f"), r.choice((1, 1, 2, 3)))
    tools = [{"type": "function", "function": {"name": n, "description": r.choice(("Does it.", "Says <\u00e9> & \"more\"\nin lines", "x")),
                                               "parameters": copy.deepcopy(r.choice(SCHEMAS))}} for n in names]
    if r.random() < 0.2:
        tools[0]["function"]["strict"] = True
    return tools


def made_calls(r, tools, ids):
    calls = []
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        ids.append("call%05d" % (len(ids) + 1))
        arguments = {k: r.choice(VALUES) for k in r.sample(("city", "n", "x", "query", "\u00fc", "filter"), r.choice((0, 1, 2, 3)))}
        if r.random() < 0.3:
            arguments = json.dumps(arguments, ensure_ascii=r.random() < 0.5)
        calls.append({"id": ids[-1], "type": "function", "function": {"name": r.choice(tools)["function"]["name"], "arguments": arguments}})
    return calls


def made_row(r):
    tools = made_tools(r) if r.random() < 0.65 else None
    thinks, ids, messages = r.random() < 0.4, [], []

    def text():
        return r.choice(TEXTS) if r.random() < 0.8 else " ".join(r.sample(TEXTS, 3))

    def answer(m):
        if thinks and r.random() < 0.8:
            m["reasoning_content"] = text()
        if r.random() < 0.08:
            m["train"] = False
        return m
    if r.random() < 0.5:
        messages.append({"role": "system", "content": text()})
    for _ in range(r.choice((1, 1, 2, 2, 3, 4))):
        messages.append({"role": "user", "content": text() if r.random() < 0.9 else [{"type": "text", "text": text()},
                                                                                    {"type": "text", "text": text()}]})
        while tools and r.random() < 0.6:
            calls = made_calls(r, tools, ids)
            messages.append(answer({"role": "assistant", "content": r.choice((None, "", "", text())), "tool_calls": calls}))
            for c in calls:
                messages.append({"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"],
                                 "content": r.choice((text(), json.dumps(r.choice(VALUES), ensure_ascii=False)))})
        content = text()
        if thinks and r.random() < 0.2:
            content = "<think>\n" + text() + "\n</think>\n\n" + content
        messages.append(answer({"role": "assistant", "content": content}))
    return {"messages": messages, "tools": tools} if tools else {"messages": messages}


def made_rows():
    r = random.Random(SEED)
    return [made_row(r) for _ in range(MADE)]


# ---- the files, and our program

def templates(folder):
    return sorted(n[:-6] for n in os.listdir(folder) if n.endswith(".jinja"))


def ours(gen, tests, t, rows, loss):
    """Lines of our program for all rows that it takes, and what it prints."""
    from safetensors import safe_open
    with tempfile.TemporaryDirectory() as folder:
        t.tok.backend_tokenizer.save(os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump({"bos_token": t.words[0], "eos_token": t.words[1]}, f)
        with open(os.path.join(folder, "chat_template.jinja"), "w", newline="") as f:
            f.write(t.text)
        path, to = os.path.join(folder, "x.jsonl"), os.path.join(folder, "x.st")
        with open(path, "w") as f:
            f.write("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
        out = subprocess.run([gen, "pack", "-o", to, "--max-length", "1000000", "--loss-on", loss, "--chat", "template", "--skip-bad",
                              "1000", "--tokenizer", os.path.join(folder, "tokenizer.json"), path], capture_output=True, text=True,
                             check=False)
        if out.returncode:
            return [], out.stderr.strip()
        with safe_open(to, "np") as f:
            ids, mask, ends = (f.get_tensor(n).tolist() for n in ("tokens", "mask", "tokens.offsets"))
        return [" ".join("%d%s" % (a, "*" if b else "") for a, b in zip(ids[i:k], mask[i:k])) for i, k in zip(ends, ends[1:])], out.stdout


def check(tests, gen, *folders):
    rows, count, same, refused, wrong = read_rows(tests) + made_rows(), 0, 0, 0, 0
    for folder in folders:
        for name in templates(folder):
            t, count = Template(tests, os.path.join(folder, name + ".jinja")), count + 1
            for loss in LOSSES + ("turns",):
                want = list(t.lines(rows, loss))
                got = ours(gen, tests, t, rows, loss)[0]
                done = [w for w in want if w is not None]
                if "\n".join(done) == "\n".join(got):
                    same, refused = same + len(done), refused + len(want) - len(done)
                    continue
                for i, w in enumerate(want):
                    one, why = ours(gen, tests, t, [rows[i]], loss)
                    if (w or "") == "\n".join(one):
                        same, refused = same + (w is not None), refused + (w is None)
                        continue
                    wrong += 1
                    print("%s %s row %d: %s" % (name, loss, i + 1, why[:300] if not one else "want " + str(w)[:60]), flush=True)
    print("%d templates: %d rows equal, %d refused by both, %d differ" % (count, same, refused, wrong))
    return wrong > 0


def record(to, tests):
    """Writes the files of a folder."""
    folder, rows, made = os.path.join(tests, "formats", "templates"), read_rows(tests), made_rows()[:RECORDED]
    base = set(PreTrainedTokenizerFast(tokenizer_file=os.path.join(tests, "tokenizer", "qwen2", "tokenizer.json"))
               .backend_tokenizer.get_vocab())
    with open(os.path.join(to, "made.jsonl.gz"), "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:
        z.write("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in made).encode())
    files = {n: open(os.path.join(to, n), "w") for n in ("expected", "tokens", "prompts", "made")}
    for name in templates(folder):
        t = Template(tests, os.path.join(folder, name + ".jinja"))
        added = sorted(set(t.tok.backend_tokenizer.get_vocab()) - base, key=t.tok.convert_tokens_to_ids)
        files["tokens"].write(" ".join([name] + t.words[:2] + added) + "\n")
        for loss in LOSSES:
            files["expected"].write(summary(name, loss, list(t.lines(rows, loss))) + "\n")
        files["prompts"].write("%s %s\n" % (name, digits(t.prompts(rows))))
        done = [line for line in t.lines(made, "turns") if line is not None]
        files["made"].write("%s %d %s\n" % (name, sum(line.count("\n") + 1 for line in done), digits(done)))
    for f in files.values():
        f.close()


def main(*args):
    if args[0] == "--check":
        return check(*args[1:])
    if args[0] == "--row":
        t = Template(args[1], os.path.join(args[1], "formats", "templates", args[2] + ".jinja"))
        rows = read_rows(args[1]) + made_rows()
        for loss in LOSSES:
            print(loss, t.row(rows[int(args[3]) - 1], loss))
        return 0
    tests = args[-1]
    folder = os.path.join(tests, "formats", "templates")
    to = tempfile.mkdtemp() if args[0] == "--again" else folder
    record(to, tests)
    return to != folder and subprocess.run(["diff", "-r", "-x", "*.jinja", "-x", "rows.jsonl", "-x", "sources", to, folder],
                                           check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
