"""Folders that commands write into: while one hone writes there another is refused by name and
takes nothing away; what a killed one left half-written goes, and what is the user's stays. Runs of
one store are known by their folders."""
import fcntl, json, os, sqlite3, sys
sys.path.append("tests")
from command import check, done, hone, run, work_folder

work = os.path.abspath(work_folder("folders"))
hone = os.path.abspath(hone)
SMALL = ("--text", os.path.abspath("src/ops/ops.h"), "--vocab_size", 300, "--hidden_size", 32, "--num_hidden_layers",
         1, "--num_attention_heads", 4, "--num_key_value_heads", 2, "--head_dim", 8, "--intermediate_size", 48,
         "--max_position_embeddings", 512)
TASK = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(300)]

def get_init_inputs():
    return []
"""


def held(name, folder, result, *args):
    """A lock that another process would hold, and files as a killed hone
    leaves them; then no lock."""
    os.makedirs(folder)
    half, users = f"{folder}/model.safetensors.4711.tmp", f"{folder}/notes.txt"
    for path in (half, users):
        open(path, "w").close()
    holder = os.open(folder, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    p = run(hone, *args)
    check(f"{name}: a folder that another writes into is refused by name",
          p.returncode == 1 and f"{folder}: another hone is writing into this folder" in p.stderr, p.stderr)
    check(f"{name}: nothing is taken from it or put there",
          sorted(os.listdir(folder)) == [os.path.basename(half), os.path.basename(users)], os.listdir(folder))
    os.close(holder)
    p = run(hone, *args, expect=0)
    check(f"{name}: what a killed one left goes, what is the user's stays",
          not os.path.exists(half) and os.path.exists(users) and os.path.exists(f"{folder}/{result}"), p.stderr)


held("init", f"{work}/init", "model.safetensors", "init", "--out", f"{work}/init", *SMALL)
held("merge", f"{work}/merged", "model.safetensors", "merge", "--model", f"{work}/init", "--out", f"{work}/merged")

with open(f"{work}/tasks.jsonl", "w") as f:
    f.write(json.dumps({"name": "relu", "source": TASK, "split": "train"}) + "\n")
with open(f"{work}/template.txt", "w") as f:
    f.write("{{task}}\n### kernel\n")
rl = ("rl", "--model", f"{work}/init", "--tasks", f"{work}/tasks.jsonl", "--prompt_template", f"{work}/template.txt",
      "--chat_template", "plain", "--num_generations", 2, "--generation_batch_size", 2, "--max_completion_length", 8,
      "--max_tokens", 512, "--max_steps", 1, "--lora_r", 2, "--threads", 1, "--verify_threads", 1)
# Answers of eight random tokens have no block of code: nobody judges them.
held("rl", f"{work}/run", "final/adapter_config.json", *rl, "--output_dir", f"{work}/run", "--store", f"{work}/one.db")

for place in ("here", "there"):
    os.makedirs(f"{work}/{place}")
    os.chdir(f"{work}/{place}")
    run(hone, *rl, "--output_dir", "run", "--store", f"{work}/shared.db", expect=0)
names = [r[0] for r in sqlite3.connect(f"{work}/shared.db").execute("SELECT name FROM runs ORDER BY id")]
check("two folders of one name are two runs of a store",
      names == [os.path.realpath(f"{work}/{place}/run") for place in ("here", "there")], names)
done()
