"""hone merge as a command: what it writes is peft's merge_and_unload (tests/ref/model_oracle.py),
in one file or in shards, in float32 or rounded once to bfloat16."""
import glob, json, os, struct, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from command import build, check, done, hone, run, work_folder
import numpy as np

folder = f"{build}/ref/model/tied"
DTYPES = {"F32": np.float32, "BF16": np.uint16}


def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    return {k: np.frombuffer(data[8 + n:], DTYPES[v["dtype"]], offset=v["data_offsets"][0],
                             count=int(np.prod(v["shape"]))).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def merge(out, *more):
    return run(hone, "merge", "--model", f"{folder}/hf", "--adapter", f"{folder}/adapter", "--out", out, *more)


def round_bf16(x):
    u = x.view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint16)


run(sys.executable, "tests/ref/model_oracle.py", f"{build}/ref/model", expect=0)
work = work_folder("merge")
p = merge(f"{work}/f32")
check("merges", p.returncode == 0 and p.stdout == f"{work}/f32\n", p.stderr)
ours, theirs = load(f"{work}/f32/model.safetensors"), load(f"{folder}/merged/model.safetensors")
check("the same tensors as peft's merge", sorted(ours) == sorted(theirs), sorted(set(ours) ^ set(theirs)))
# W + s B A with r = 4: s B A is a sum of four products, each rounded, then one rounding of the sum
# with W: relative to the largest magnitudes of both terms.
bound = 2.0 ** -24 * (1 + 2 * 4) * 2
worst = max(float(np.abs(ours[k] - theirs[k]).max() / np.abs(theirs[k]).max()) for k in ours)
check("equal within one rounding of each term", worst <= bound, f"{worst} > {bound}")

p = merge(f"{work}/bf16", "--dtype", "bfloat16", "--max_shard_mb", "1")
check("rounds to bfloat16", p.returncode == 0, p.stderr)
short = load(f"{work}/bf16/model.safetensors")
check("each value is rounded once", all(np.array_equal(short[k], round_bf16(ours[k])) for k in ours))
check("config.json says so", json.load(open(f"{work}/bf16/config.json"))["dtype"] == "bfloat16")

p = run(hone, "merge", "--model", f"{folder}/hf", "--dtype", "bfloat16", "--out", f"{work}/plain")
plain, source = load(f"{work}/plain/model.safetensors"), load(f"{folder}/hf/model.safetensors")
check("without an adapter the weights as they are, in the type asked for", p.returncode == 0 and sorted(plain)
      == sorted(source) and all(np.array_equal(plain[k], round_bf16(source[k])) for k in plain), p.stderr)

run(hone, "init", "--out", f"{work}/wide", "--text", "src/ops/ops.h", "--vocab_size", 400, "--hidden_size", 256,
    "--num_hidden_layers", 2, "--num_attention_heads", 4, "--num_key_value_heads", 2, "--head_dim", 32,
    "--intermediate_size", 512, "--max_position_embeddings", 128, expect=0)
rows = [{"prompt": "a", "completion": "b"}] * 4
open(f"{work}/pairs.jsonl", "w").writelines(json.dumps(r) + "\n" for r in rows)
run(hone, "sft", "--model", f"{work}/wide", "--data", f"{work}/pairs.jsonl", "--output_dir", f"{work}/run",
    "--max_steps", 1, "--max_tokens", 64, "--lora_r", 2, expect=0)
p = run(hone, "merge", "--model", f"{work}/wide", "--adapter", f"{work}/run/final", "--out", f"{work}/shards",
        "--max_shard_mb", "1", expect=0)
files = sorted(os.path.basename(f) for f in glob.glob(f"{work}/shards/*.safetensors*"))
index = json.load(open(f"{work}/shards/model.safetensors.index.json"))
check("larger weights become shards",
      len(files) > 3 and "model.safetensors" not in files and sorted(set(index["weight_map"].values())) == files[:-1],
      files)
sizes = [sum(v.nbytes for v in load(f"{work}/shards/{f}").values()) for f in files[:-1]]
check("none larger than asked, and the index has the sum",
      max(sizes) <= 10 ** 6 and sum(sizes) == index["metadata"]["total_size"], sizes)
run(hone, "merge", "--model", f"{work}/wide", "--out", f"{work}/two", "--max_shard_mb", "2", expect=0)
sizes = [sum(v.nbytes for v in load(f).values()) for f in glob.glob(f"{work}/two/*.safetensors")]
check("of two megabytes, where it is said so", len(sizes) > 1 and 10 ** 6 < max(sizes) <= 2 * 10 ** 6, sizes)
p = run(hone, "generate", "--model", f"{work}/shards", "--prompt", "matmul", "--max_new_tokens", 3, "--json")
check("the folder opens again", p.returncode == 0, p.stderr)
p = merge(f"{work}/bad", "--max_shard_mb", "0")
check("a shard needs a size", p.returncode == 2 and "--max_shard_mb" in p.stderr, p.stderr)
p = merge(f"{work}/bad", "--dtype", "int8")
check("only floating types", p.returncode == 2 and "float32|bfloat16|float16" in p.stderr, p.stderr)
done()
