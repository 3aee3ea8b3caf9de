"""GGUF files made with gguf-py for tests/tensor/test_gguf.c, and what its dequantiser makes of
them.

usage: python tests/ref/gguf_oracle.py OUT_DIR
writes OUT_DIR/{types.gguf,want.safetensors,values.gguf,small.gguf}
"""
import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFValueType as T
from safetensors.numpy import save_file

# Where fp16 numbers lie in a block. Everything else in a block may be any byte.
HALVES = {Q.Q8_0: [0], Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q4_K: [0, 2], Q.Q5_K: [0, 2],
          Q.Q6_K: [208]}
ROWS = 24


def write(path, name, fill):
    w = gguf.GGUFWriter(path, name)
    fill(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def blocks(rng, quant):
    """ROWS rows of three blocks of random bytes: all values of each field occur, infinite scales
    and denormals too. Of NaN there is no single bit pattern, so no scale is one."""
    size = gguf.GGML_QUANT_SIZES[quant][1]
    raw = rng.integers(0, 256, (ROWS * 3, size), dtype=np.uint8)
    for at in HALVES[quant]:
        half = raw[:, at:at + 2].copy().view(np.uint16)
        half[(half & 0x7c00) == 0x7c00] &= 0xfc00
        raw[:, at:at + 2] = half.view(np.uint8)
    return raw.reshape(ROWS, 3 * size)


def types(folder):
    rng = np.random.default_rng(1)
    tensors = {q.name: (blocks(rng, q), q) for q in HALVES}
    everything = np.arange(65536, dtype=np.uint16)
    not_nan = everything[~np.isnan(everything.view(np.float16))]
    tensors["F16"] = (not_nan.view(np.float16).reshape(2, -1), Q.F16)
    not_nan = everything[~np.isnan((everything.astype(np.uint32) << 16).view(np.float32))]
    tensors["BF16"] = (not_nan.view(np.uint8).reshape(2, -1), Q.BF16)
    tensors["F32"] = (rng.standard_normal((2, 3, 5)).astype(np.float32), Q.F32)
    write(f"{folder}/types.gguf", "types",
          lambda w: [w.add_tensor(name, data, raw_dtype=q) for name, (data, q) in tensors.items()])
    with np.errstate(all="ignore"):
        want = {name: np.ascontiguousarray(gguf.dequantize(data, q)) for name, (data, q) in tensors.items()}
    save_file(want, f"{folder}/want.safetensors")


def values(w):
    scalars = {T.UINT8: 200, T.INT8: -100, T.UINT16: 60000, T.INT16: -30000, T.UINT32: 4000000000, T.INT32: -2000000000,
               T.FLOAT32: 0.1, T.BOOL: True, T.STRING: "häll\no", T.UINT64: 2**63 + 5, T.INT64: -(2**62),
               T.FLOAT64: 0.1}
    for kind, value in scalars.items():
        w.add_key_value(f"one.{kind.name.lower()}", value, kind)
    w.add_array("list.int32", [3, -4, 5])
    w.add_array("list.string", ["a", "", "xyz"])
    w.add_array("list.bool", [True, False])
    w.add_key_value("list.lists", [[1, 2], [3]], T.ARRAY)
    w.add_string("nul", "a\0b")
    w.add_float32("infinite", float("inf"))
    w.add_custom_alignment(64)
    w.add_tensor("a.weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("b.weight", np.arange(4, dtype=np.float16))


def small(w):
    w.add_uint32("n", 7)
    w.add_array("words", ["a", "bc"])
    w.add_array("numbers", [1, 2, 3])
    w.add_key_value("lists", [[1], [2, 3]], T.ARRAY)
    w.add_bool("yes", True)
    w.add_tensor("a", np.arange(3, dtype=np.float32))
    w.add_tensor("b", gguf.quantize(np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32), Q.Q4_1), raw_dtype=Q.Q4_1)


if __name__ == "__main__":
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    types(out)
    write(f"{out}/values.gguf", "values", values)
    write(f"{out}/small.gguf", "small", small)   # last: the test looks for it
