"""NF4 as bitsandbytes has it, by its backend in PyTorch: without its CPU library, whose codes differ.

In:    a model folder.
Out:   load(): the model with its linear layers quantised; dequantise(): the same values in ordinary layers.
       As a script, nf4.py HEADER FOLDER: recorded bytes for tests/kernels, a folder for tests/checkpoint."""
import ctypes
import os
import sys
import zlib

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")        # values, not speed

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig


def _hide_library():
    assert "bitsandbytes" not in sys.modules, "bitsandbytes has loaded its library already"
    load = ctypes.cdll.LoadLibrary

    def other(path):
        if "libbitsandbytes" in str(path):
            raise OSError(f"{path} is hidden: {__doc__.splitlines()[0]}")
        return load(path)
    ctypes.cdll.LoadLibrary = other


_hide_library()
import bitsandbytes  # noqa: E402
import bitsandbytes.functional as bnb  # noqa: E402

HOW = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)


def load(folder, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, device_map="cpu",
        quantization_config=BitsAndBytesConfig(bnb_4bit_compute_dtype=dtype, **HOW))


def dequantise(model):
    for name, module in list(model.named_modules()):
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            values = bnb.dequantize_4bit(module.weight.data, module.weight.quant_state)
            plain = torch.nn.Linear(module.in_features, module.out_features, module.bias is not None)
            plain.weight = torch.nn.Parameter(values, requires_grad=False)
            if module.bias is not None:
                plain.bias = module.bias
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, plain)
    for key in ("hf_quantizer", "quantization_method"):
        if hasattr(model, key):
            delattr(model, key)
    for key in ("is_loaded_in_4bit", "is_quantized"):
        setattr(model, key, False)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


ROWS, COLUMNS = (344, 4, 8), 48      # tensors of 258, 3 and 6 blocks: two groups, and one


def recorded_input():
    """Fp32 numbers that C makes, too: nf4_recorded_input() of the header."""
    i = torch.arange(sum(ROWS) * COLUMNS, dtype=torch.int64)
    x = ((i * 2654435761 % 2**32 >> 8) - 2**23).float() * 2.0**-24
    x = (x * 2.0**-(i // 64 % 7).float()).reshape(-1, 64)
    x[5] = 0
    x[6] *= 2.0**-130                # denormal
    x[7] = 0
    x[7][9] = -3
    code = bnb.get_4bit_type("nf4", device="cpu")
    x[8][:15] = (code[:-1] + code[1:]) / 2          # halfway between two values
    x[8][15] = 1
    x[9] *= 2.0**-126                # largest magnitude between 1e-38 and the least normal number
    x[9][0] = 1.1e-38
    return x.reshape(-1, COLUMNS)


def text(data):
    lines = [data.hex()[i:i + 104] for i in range(0, 2 * len(data), 104)]
    return "".join(f'    "{line}"\n' for line in lines)


def header(path):
    x, states, values = recorded_input(), [], {}
    for part in x.split(ROWS):
        states.append(bnb.quantize_4bit(part.contiguous(), blocksize=64, compress_statistics=True, quant_type="nf4"))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for _, state in states:
            state.dtype = dtype
        whole = torch.cat([bnb.dequantize_4bit(codes, state) for codes, state in states])
        values[dtype] = zlib.crc32(whole.view(torch.uint8).numpy().tobytes())
    absmax = torch.cat([bnb.dequantize_blockwise(s.absmax, s.state2) + s.offset for _, s in states])
    several = lambda get: b"".join(get(codes, state).numpy().tobytes() for codes, state in states)
    with open(path, "w") as f:
        f.write(f"""/* nf4_recorded.h -- what bitsandbytes {bitsandbytes.__version__} makes of a matrix of {len(ROWS)} tensors, by its backend in PyTorch.
 * Made by tests/oracle/nf4.py. Texts hold bytes in hexadecimal digits. */
#ifndef DIECAST_TESTS_KERNELS_NF4_RECORDED_H
#define DIECAST_TESTS_KERNELS_NF4_RECORDED_H

enum {{ NF4_ROWS0 = {ROWS[0]}, NF4_ROWS1 = {ROWS[1]}, NF4_ROWS2 = {ROWS[2]}, NF4_COLUMNS = {COLUMNS} }};
/* CRC-32 of the dequantised matrix in each type. */
enum {{ NF4_CRC_F32 = (int){values[torch.float32]}u, NF4_CRC_BF16 = (int){values[torch.bfloat16]}u, NF4_CRC_F16 = (int){values[torch.float16]}u }};
static const char nf4_codes_text[] =
{text(several(lambda c, s: c))};
static const char nf4_absmax_text[] =
{text(several(lambda c, s: s.absmax))};
static const char nf4_nested_text[] =
{text(several(lambda c, s: s.state2.absmax))};
static const char nf4_offset_text[] =
{text(several(lambda c, s: s.offset.reshape(1)))};
static const char nf4_dequantised_absmax_text[] =
{text(absmax.numpy().tobytes())};

#endif
""".replace("\n;", ";"))


if __name__ == "__main__":
    header(sys.argv[1])
