#!/usr/bin/env python3
"""Makes tests/formats/chats/: conversations as the models' own chat templates render them.

Usage: chats.py TEMPLATES TESTS_FOLDER [TRAINING [GEN]]    (needs transformers, tokenizers, trl; tests/tokenizer must be there)
       chats.py --ours TESTS_FOLDER    whether the templates that exports of ours write, CHAT.jinja, render these rows
       chats.py --again TESTS_FOLDER CHAT...    records the rows of chats by those templates: of another tokenizer
In:    TEMPLATES, a folder of chat_template texts (one a file, any names) of the models that runtime/pack/chats.def lists;
       TRAINING: trl/chat_templates, which mark what is generated: where masks differ from these is printed;
       GEN, our program: each template in a folder is to be recognised, or rendered with a fixed date;
       chats/tokenizers: of each chat a folder of tests/tokenizer, with the structure of the model's own, and more added tokens.
Out:   CHAT.LOSS.expected: the rows of chats/conversations.jsonl, targets marked with a star, "refused" where the template
       raises (qwen3 but for "last": each message on its own); a template that chats.def does not list, or one of it that is missing, is named. Templates of one chat agree.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

import jinja2
from transformers import PreTrainedTokenizerFast
from trl.data_utils import common_prefix_length

DATE = "26 Jul 2024"
CHATML, LLAMA3, ROLE = "<|im_start|>assistant\n", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|assistant|>\n"
# what the prompt that asks for an answer ends with
OPEN = {"chatml": CHATML, "qwen2": CHATML, "qwen2.5": CHATML, "qwen3": CHATML, "smollm2": CHATML, "zephyr": ROLE,
        "phi-3": ROLE, "llama-3": LLAMA3, "llama-3.1": LLAMA3, "llada": LLAMA3, "gemma": "<start_of_turn>model\n",
        "gemma-3": "<start_of_turn>model\n"}
END = {"phi-3": "<|endoftext|>"}                # after the last turn
LAST = {"mistral-v3", "mistral-v3-tekken"}      # the system message stands in the last user's turn
THINKS = {"qwen3"}
TRL = {"qwen3": "qwen3", "gemma": "gemma", "gemma-3": "gemma3", "llama-3": "llama3", "qwen2.5": "qwen2_5", "phi-3": "phi3",
       "chatml": "qwen3_instruct_2507"}


def normalised(text):
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if text.endswith("\n") else text


class Chat:
    """A template with a tokenizer of the tests: rendered text and ids."""

    def __init__(self, tests, name, folder, added, template):
        self.name, self.template, self.open, self.end = name, template, OPEN.get(name, ""), END.get(name, "")
        with open(os.path.join(tests, "tokenizer", folder, "tokenizer_config.json")) as f:
            config = json.load(f)
        self.tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(tests, "tokenizer", folder, "tokenizer.json"),
                                           bos_token=config.get("bos_token"))
        self.eos = config["eos_token"]
        if isinstance(self.eos, str):
            self.tok.eos_token = self.eos
        self.tok.add_tokens(added, special_tokens=True)

    def apply(self, messages, **more):
        return self.tok.apply_chat_template(messages, chat_template=self.template, tokenize=False, date_string=DATE, **more)

    def render(self, messages):
        """Text of whole messages; None: the template raises."""
        try:
            text = self.apply(messages)
        except jinja2.exceptions.TemplateError:
            return None
        # the first template of Llama 3 begins an answer whether it is asked to or not
        return text[:-len(self.open)] if self.open and text == self.apply(messages, add_generation_prompt=True) else text

    def encode(self, text):
        return self.tok.encode(text, add_special_tokens=False)

    def piece(self, m):
        """A message by itself, an answer with its reasoning: of a template that writes each on its own."""
        if m["role"] != "assistant":
            return self.apply([m])
        asked = [{"role": "user", "content": "?"}]
        return self.apply(asked + [m])[len(self.apply(asked)):]

    def prefix(self, messages, n, loss):
        """The first n messages as they stand in the row of all."""
        users = [i for i, m in enumerate(messages) if m["role"] == "user"]
        if self.name in THINKS and loss != "last" and users:
            return "".join(self.piece(m) for m in messages[:n])
        if self.name in THINKS and n == len(messages) - 1:
            done = self.render(messages)
            return done[:done.rindex(self.open)]
        if self.name in LAST and messages[0]["role"] == "system" and users:
            rest, asked = self.render(messages[1:n]), self.render(messages[:users[-1] + 1])
            if n <= users[-1] or rest is None or asked is None:
                return asked and rest
            return asked + rest[len(self.render(messages[1:users[-1] + 1])):]
        text = self.render(messages[:n])
        return text[:len(text) - len(self.end)] if text and n < len(messages) else text

    def ids(self, messages, loss):
        """Ids of a row and which of them are targets; None: the template raises."""
        text = self.prefix(messages, len(messages), loss)
        if text is None:
            return None
        ids = self.encode(text)
        mask = [loss == "all"] * len(ids)
        for i, m in enumerate(messages):
            if m["role"] != "assistant" or loss == "all" or (loss == "last" and i + 1 < len(messages)):
                continue
            done = self.prefix(messages, i + 1, loss)
            bos = self.tok.bos_token if done.startswith(self.tok.bos_token or "-") else ""
            before = self.prefix(messages, i, loss) if i else done[:done.index(self.open)] if self.open else bos
            before += self.open
            if self.name in THINKS:     # the prompt that asks for an answer without reasoning
                without = self.apply([{"role": "user", "content": ""}], add_generation_prompt=True, enable_thinking=False)
                block = without[without.index(self.open) + len(self.open):]
                before += block if done[len(before):].startswith(block) else ""
            assert text.startswith(done) and done.startswith(before), (text, done, before)
            # a token that joins an answer and its neighbour is a target
            alone = self.encode(done)
            end = common_prefix_length(alone, ids)
            end += end < len(alone)
            start = common_prefix_length(self.encode(before), ids)
            mask[start:end] = [True] * (end - start)
        return ids, mask

    def row(self, messages, loss):
        made = self.ids(messages, loss)
        return "refused\n" if made is None else " ".join("%d%s" % (t, "*" if m else "") for t, m in zip(*made)) + "\n"

    def trained(self, messages, template):
        """The same of --loss-on assistant by a template that marks what it generates."""
        out = self.tok.apply_chat_template(messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
        return out["input_ids"], [bool(m) for m in out["assistant_masks"]]


def recognised(gen, chat, template, at):
    """What gen pack says of a folder with this template, which is in a file or a member of tokenizer_config.json."""
    with tempfile.TemporaryDirectory() as folder:
        def write(name, text):
            with open(os.path.join(folder, name), "w", newline="") as f:
                f.write(text)
        config = {"bos_token": chat.tok.bos_token, "eos_token": chat.eos}
        if at == "file":
            write("chat_template.jinja", template)
        else:
            config["chat_template"] = template if at == "string" else [{"name": "default", "template": template}]
        chat.tok.backend_tokenizer.save(os.path.join(folder, "tokenizer.json"))
        write("tokenizer_config.json", json.dumps(config))
        write("x.jsonl", json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}))
        out = subprocess.run([gen, "pack", "--show", "1", "--tokenizer", os.path.join(folder, "tokenizer.json"),
                              os.path.join(folder, "x.jsonl")], capture_output=True, text=True, check=False)
    found = re.search("chat format: (\\S*), by the chat_template", out.stdout)
    return found.group(1) if found else "dated" if "with the date" in out.stdout else out.stderr


def recorded(tests):
    """The folder of the rows, the conversations, and each chat's tokenizer with the tokens it gets."""
    out = os.path.join(tests, "formats", "chats")
    with open(os.path.join(out, "conversations.jsonl")) as f:
        talks = [json.loads(line)["messages"] for line in f]
    with open(os.path.join(out, "tokenizers")) as f:
        return out, talks, {words[0]: (words[1], words[2:]) for words in (line.split() for line in f)}


def record(out, chat, loss, rows):
    with open(os.path.join(out, "%s.%s.expected" % (chat, loss)), "w") as f:
        f.writelines(rows)


def again(tests, *names):
    out, talks, tokenizer = recorded(tests)
    for name in names:
        with open(os.path.join(out, name + ".jinja")) as f:
            chat = Chat(tests, name, *tokenizer[name], f.read())
        for loss in ("last", "assistant", "all"):
            record(out, name, loss, [chat.row(t, loss) for t in talks])
    return 0


def ours(tests):
    out, talks, tokenizer = recorded(tests)
    wrong = 0
    for name in sorted(tokenizer.keys() - THINKS):
        with open(os.path.join(out, name + ".jinja")) as f:
            chat = Chat(tests, name, *tokenizer[name], f.read())
        with open(os.path.join(out, name + ".all.expected")) as f:
            wanted = f.read().splitlines()
        for talk, want in zip(talks, wanted):
            text = chat.render(talk)
            got = "refused" if text is None else " ".join("%d*" % t for t in chat.encode(text))
            asks = text is None or talk[-1]["role"] != "user" or chat.apply(talk, add_generation_prompt=True).endswith(chat.open)
            if got != want or not asks:
                print("%s: want %s, got %s: %s" % (name, want, got, json.dumps(talk)))
                wrong = 1
    return wrong


def main(templates, tests, training=None, gen=None, *more):
    if templates == "--ours":
        return ours(tests)
    if templates == "--again":
        return again(tests, *[name for name in (training, gen, *more) if name])
    out, talks, tokenizer = recorded(tests)
    known, dated = {}, set()
    with open(os.path.join(tests, "..", "runtime", "pack", "chats.def")) as f:
        for kind, sha, chat in re.findall(r'(TEMPLATE|DATED)\("(\w+)", "(.*?)"\)', f.read()):
            known.setdefault(sha, []).append(chat)
            dated |= {sha} if kind == "DATED" else set()
    made, wrong = {}, 0
    for name in sorted(os.listdir(templates)):
        with open(os.path.join(templates, name), newline="") as f:
            text = f.read()
        sha = hashlib.sha256(normalised(text).encode()).hexdigest()
        chats = known.pop(sha, None)
        if not chats:
            print("%s: %s is not in chats.def" % (name, sha))
            wrong = 1
            continue
        chat = Chat(tests, chats[0], *tokenizer[chats[0]], text)
        for loss in ("last", "assistant", "all"):
            rows = [chat.row(t, loss) for t in talks]
            if made.setdefault((chat.name, loss), rows) != rows:
                print("%s: rows differ from those of another template of %s" % (name, chat.name))
                wrong = 1
        for at in ("file", "string", "list") if gen else ():
            said = recognised(gen, chat, text, at)
            if said != ("dated" if sha in dated else chat.name):
                print("%s: gen pack says %s (%s)" % (name, said, at))
                wrong = 1
        if training and chat.name in TRL:
            with open(os.path.join(training, TRL[chat.name] + "_training.jinja")) as f:
                marked = f.read()
            rows = [(i + 1, chat.ids(t, "assistant"), chat.trained(t, marked)) for i, t in enumerate(talks)
                    if chat.render(t) is not None]
            print("%s: of TRL's %d rows differ in ids %s, in targets %s" % (name, len(rows), [
                i for i, a, b in rows if a[0] != b[0]], [i for i, a, b in rows if a[1] != b[1]]))
    for (chat, loss), rows in made.items():
        record(out, chat, loss, rows)
    for sha in known:
        print("chats.def: %s was not among the templates" % sha)
        wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
