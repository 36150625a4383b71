#!/usr/bin/env python3
"""Makes tests/formats/chats/: conversations as the models' own chat templates render them.

Usage: chats.py TEMPLATES TESTS_FOLDER      (needs transformers, tokenizers; tests/tokenizer must be there)
In:    TEMPLATES, a folder of chat_template texts (one a file, any names) of the models that runtime/pack/chats.def lists.
Out:   CHAT.LOSS.expected: the rows of tests/formats/rows/chat.jsonl, targets marked with a star; a template that
       chats.def does not list, or one of it that is missing, is named. Templates of one format must agree.
"""
import hashlib
import json
import os
import re
import sys

from transformers import PreTrainedTokenizerFast

DATE = "26 Jul 2024"
OPEN = {"qwen2": "<|im_start|>assistant\n", "llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n"}


def normalised(text):
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if text.endswith("\n") else text


def renderer(tests, folder, template):
    with open(os.path.join(tests, "tokenizer", folder, "tokenizer_config.json")) as f:
        bos = json.load(f).get("bos_token")
    tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(tests, "tokenizer", folder, "tokenizer.json"), bos_token=bos)

    def render(messages):
        text = tok.apply_chat_template(messages, chat_template=template, tokenize=False, date_string=DATE)
        again = tok.apply_chat_template(messages, chat_template=template, tokenize=False, date_string=DATE,
                                        add_generation_prompt=True)
        # the first template of Llama 3 begins an answer whether it is asked to or not
        return text[:-len(OPEN[folder])] if text == again else text
    return render, lambda text: tok.encode(text, add_special_tokens=False)


def row(render, encode, header, messages, loss):
    ids = encode(render(messages))
    mask = [loss == "all"] * len(ids)
    for i, m in enumerate(messages):
        if m["role"] != "assistant" or loss == "all" or (loss == "last" and i + 1 < len(messages)):
            continue
        done = render(messages[:i + 1])
        before = render(messages[:i]) if i else done[:done.index(header)]
        assert done.startswith(before + header)
        start, end = len(encode(before + header)), len(encode(done))
        mask[start:end] = [True] * (end - start)
    return " ".join("%d%s" % (t, "*" if m else "") for t, m in zip(ids, mask)) + "\n"


def main(templates, tests):
    with open(os.path.join(tests, "..", "runtime", "pack", "chats.def")) as f:
        known = dict(re.findall(r'TEMPLATE\("(\w+)", "(.*?)"\)', f.read()))
    with open(os.path.join(tests, "formats", "rows", "chat.jsonl")) as f:
        chats = [json.loads(line)["messages"] for line in f]
    out = os.path.join(tests, "formats", "chats")
    os.makedirs(out, exist_ok=True)
    made, wrong = {}, 0
    for name in sorted(os.listdir(templates)):
        with open(os.path.join(templates, name), newline="") as f:
            text = f.read()
        sha = hashlib.sha256(normalised(text).encode()).hexdigest()
        chat = known.pop(sha, None)
        if not chat:
            print("%s: %s is not in chats.def" % (name, sha))
            wrong = 1
            continue
        folder = "llama3" if chat.startswith("llama") else "qwen2"
        render, encode = renderer(tests, folder, text)
        for loss in ("last", "assistant", "all"):
            rows = [row(render, encode, OPEN[folder], c, loss) for c in chats]
            if made.setdefault((chat, loss), rows) != rows:
                print("%s: rows differ from those of another template of %s" % (name, chat))
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
