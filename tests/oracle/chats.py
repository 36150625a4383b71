#!/usr/bin/env python3
"""Makes tests/formats/chats/: conversations as the models' own chat templates render them.

Usage: chats.py TEMPLATES TESTS_FOLDER      (needs transformers, tokenizers; tests/tokenizer must be there)
In:    TEMPLATES, a folder of chat_template texts (one a file, any names) of the models that runtime/pack/chats.def lists;
       chats/tokenizers: of each chat a folder of tests/tokenizer, its bos_token and eos_token and more added tokens.
Out:   CHAT.LOSS.expected: the rows of chats/conversations.jsonl, targets marked with a star, "refused" where the template
       raises; a template that chats.def does not list, or one of it that is missing, is named. Templates of one chat agree.
"""
import hashlib
import json
import os
import re
import sys

import jinja2
from transformers import PreTrainedTokenizerFast

DATE = "26 Jul 2024"
LLAMA3 = "<|start_header_id|>assistant<|end_header_id|>\n\n"
OPEN = {"chatml": "<|im_start|>assistant\n", "qwen2": "<|im_start|>assistant\n", "qwen2.5": "<|im_start|>assistant\n",
        "llama-2": "", "llama-3": LLAMA3, "llama-3.1": LLAMA3}


def normalised(text):
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if text.endswith("\n") else text


class Chat:
    """A template with a tokenizer of the tests: rendered text and ids."""

    def __init__(self, tests, name, folder, added, template):
        self.name, self.template, self.open = name, template, OPEN[name]
        with open(os.path.join(tests, "tokenizer", folder, "tokenizer_config.json")) as f:
            config = json.load(f)
        self.tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(tests, "tokenizer", folder, "tokenizer.json"),
                                           bos_token=config.get("bos_token"))
        if added:
            self.tok.add_special_tokens({"bos_token": added[0], "eos_token": added[1], "additional_special_tokens": added[2:]})

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

    def row(self, messages, loss):
        text = self.render(messages)
        if text is None:
            return "refused\n"
        ids = self.encode(text)
        mask = [loss == "all"] * len(ids)
        for i, m in enumerate(messages):
            if m["role"] != "assistant" or loss == "all" or (loss == "last" and i + 1 < len(messages)):
                continue
            done = self.render(messages[:i + 1])
            before = self.render(messages[:i]) if i else done[:done.index(self.open)]
            assert text.startswith(done) and done.startswith(before + self.open)
            start, end = len(self.encode(before + self.open)), len(self.encode(done))
            mask[start:end] = [True] * (end - start)
        return " ".join("%d%s" % (t, "*" if m else "") for t, m in zip(ids, mask)) + "\n"


def main(templates, tests):
    out = os.path.join(tests, "formats", "chats")
    known = {}
    with open(os.path.join(tests, "..", "runtime", "pack", "chats.def")) as f:
        for sha, chat in re.findall(r'TEMPLATE\("(\w+)", "(.*?)"\)', f.read()):
            known.setdefault(sha, []).append(chat)
    with open(os.path.join(out, "conversations.jsonl")) as f:
        talks = [json.loads(line)["messages"] for line in f]
    with open(os.path.join(out, "tokenizers")) as f:
        tokenizer = {words[0]: (words[1], words[2:]) for words in (line.split() for line in f)}
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
    for (chat, loss), rows in made.items():
        with open(os.path.join(out, "%s.%s.expected" % (chat, loss)), "w") as f:
            f.writelines(rows)
    for sha in known:
        print("chats.def: %s was not among the templates" % sha)
        wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
