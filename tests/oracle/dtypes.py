#!/usr/bin/env python3
"""Sums of the files that transformers writes of the recorded models in 16 bits: tests/checkpoint/as_16bit.sha256.

In:    tests/train/ref.
Out:   a line "sha256  KIND TYPE" each, KIND as tests/checkpoint/run.sh has it."""
import hashlib
import os
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save
from transformers import AutoModelForCausalLM, BertForMaskedLM

REF = "tests/train/ref"
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
MODELS = {"gpt2": ("gpt2_tiny", AutoModelForCausalLM), "llama": ("llama_tiny", AutoModelForCausalLM),
          "bert": ("mlm_bert", BertForMaskedLM), "qwen2": ("qwen2_tiny", AutoModelForCausalLM)}


def say(data, name):
    print(f"{hashlib.sha256(data).hexdigest()}  {name}")


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
for kind, (case, cls) in MODELS.items():
    for name, dtype in TYPES.items():
        with tempfile.TemporaryDirectory() as folder:
            cls.from_pretrained(f"{REF}/{case}/model", dtype=torch.float32).to(dtype).save_pretrained(folder)
            with open(os.path.join(folder, "model.safetensors"), "rb") as f:
                say(f.read(), f"{kind} {name}")
for kind in ("lora", "rslora"):
    tensors = load_file(f"{REF}/qwen2_{kind}/adapter_final/adapter_model.safetensors")
    for name, dtype in TYPES.items():
        say(save({k: v.to(dtype) for k, v in tensors.items()}, {"format": "pt"}), f"{kind} {name}")
