"""The adapters of the case qwen2_lora, of rank 4, as ones of rank 8 with the same scale. The other rows of A and columns
of B are 0, and so are their gradients: PyTorch's numbers of the case hold for rank 8, too.

python3 tests/oracle/eight.py: writes tests/train/ref/qwen2_eight, which shares all else with qwen2_lora."""
import json
import os
import struct

FROM, TO = "tests/train/ref/qwen2_lora", "tests/train/ref/qwen2_eight"


def read(path):
    """Tensors of fp32 by name, as shape and bytes; the metadata."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    meta = head.pop("__metadata__", None)
    return {k: (v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items()}, meta


def write(path, tensors, meta):
    head, data = {"__metadata__": meta} if meta else {}, b""
    for name, (shape, values) in tensors.items():
        head[name] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + len(values)])
        data += values
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def twice(name, shape, values):
    rows, columns = shape
    if ".lora_A." in name:
        return [2 * rows, columns], values + bytes(len(values))
    return [rows, 2 * columns], b"".join(
        values[4 * columns * i:4 * columns * (i + 1)] + bytes(4 * columns) for i in range(rows))


for name in ("model", "tokens.safetensors", "eval.safetensors", "expect.json"):
    os.makedirs(TO, exist_ok=True)
    if not os.path.lexists(f"{TO}/{name}"):
        os.symlink(f"../qwen2_lora/{name}", f"{TO}/{name}")
for name in ("adapter_init", "adapter_final"):
    os.makedirs(f"{TO}/{name}", exist_ok=True)
    tensors, meta = read(f"{FROM}/{name}/adapter_model.safetensors")
    write(f"{TO}/{name}/adapter_model.safetensors", {k: twice(k, *v) for k, v in tensors.items()}, meta)
    with open(f"{FROM}/{name}/adapter_config.json") as f:
        config = json.load(f)
    config.update(r=2 * config["r"], lora_alpha=2 * config["lora_alpha"])
    with open(f"{TO}/{name}/adapter_config.json", "w") as f:
        f.write(json.dumps(config, indent=2) + "\n")
