"""Files written by the safetensors package for tests/tensor/test_safetensors.c, and the check of a
file that hone wrote.

    python tests/ref/tensor_oracle.py OUT_DIR             writes OUT_DIR/{all,empty,f8}.safetensors
                                                          and OUT_DIR/sharded/
    python tests/ref/tensor_oracle.py --check FILE        exit 0 when FILE holds what test_write
                                                          wrote
"""
import json
import os
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = {
    "float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
    "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64, "bool": torch.bool,
}


def value(i):
    return (i * 7) % 9 - 4


def write(folder):
    os.makedirs(os.path.join(folder, "sharded"), exist_ok=True)
    tensors = {}
    # A tensor of each type, odd shapes, a name that needs escaping.
    for name, dtype in DTYPES.items():
        x = torch.tensor([value(i) for i in range(15)], dtype=torch.float64)
        if name.startswith("uint"):
            x = x.abs()
        if dtype.is_floating_point:
            x = x / 4   # exact in every format
        tensors[name] = (x != 0 if dtype == torch.bool else x.to(dtype)).reshape(3, 5)
    tensors["scalar"] = torch.tensor(2.5)
    tensors["nothing"] = torch.zeros(4, 0, 3)
    tensors["weird \"näme\" \\ /.."] = torch.ones(1)
    save_file(tensors, os.path.join(folder, "all.safetensors"), metadata={"format": "pt", "note": "hello"})
    save_file({}, os.path.join(folder, "empty.safetensors"))
    # A model in two files with an index.
    shards = {"model-00001-of-00002.safetensors": {"a": torch.arange(4.0), "b.weight": torch.arange(6.0).reshape(2, 3)},
              "model-00002-of-00002.safetensors": {"c": torch.full((2,), 9.0)}}
    weight_map = {}
    for file, content in shards.items():
        save_file(content, os.path.join(folder, "sharded", file), metadata={"format": "pt"})
        weight_map.update({name: file for name in content})
    with open(os.path.join(folder, "sharded", "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 48}, "weight_map": weight_map}, f)
    f8 = {}
    for name in ("float8_e4m3fn", "float8_e5m2"):
        f8[name] = torch.arange(256, dtype=torch.uint8).view(DTYPES[name])
        f8[name + ".f32"] = f8[name].float()
    save_file(f8, os.path.join(folder, "f8.safetensors"))   # last: the test looks for it


def check(path):
    with safe_open(path, "pt") as f:
        assert f.metadata() == {"format": "pt", "extra": "yes"}, f.metadata()
    got = load_file(path)
    assert sorted(got) == ["bytes", "doubles", "halves", "none", "x.weight"], sorted(got)
    assert got["x.weight"].dtype == torch.float32 and torch.equal(got["x.weight"], torch.arange(6.0).reshape(2, 3))
    assert got["bytes"].dtype == torch.uint8 and got["bytes"].tolist() == [1, 2, 3]
    assert got["halves"].dtype == torch.bfloat16 and got["halves"].tolist() == [1.0]
    assert got["doubles"].dtype == torch.float64 and got["doubles"].tolist() == [0.5, -0.5]
    assert got["none"].shape == (0, 7)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check(sys.argv[2])
    else:
        write(sys.argv[1])
