#!/usr/bin/env python3
"""Tokens per second of hone's tokenizer and of Hugging Face's, on one core, on the same documents, alternating in one run.

usage: make bench-text, or BUILD=build/release text_bench.py [--vocab_size N] [--rounds N]
Documents: Python sources of the installed packages (what the models read and write), 4 to 40 KB each. The vocabulary is trained on other files of the
same kind. Hugging Face's side is encode_batch_fast, its fastest call (no offsets), without threads. The ids are compared before anything is printed."""
import argparse
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def documents(bytes_max, offset):
    found, total = [], 0
    for path in sorted(pathlib.Path(sysconfig.get_paths()["purelib"]).glob("t*/**/*.py"))[offset::7]:
        text = path.read_text(encoding="utf-8", errors="ignore").replace("\0", "")
        if 4000 < len(text) < 40000:
            found.append(text)
            total += len(text.encode())
        if total > bytes_max:
            break
    return found


def make_tokenizer(kind, vocab_size, texts):
    t = Tokenizer(models.BPE())
    if kind == "qwen":
        t.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(QWEN), "isolated")
        t.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    return t


def run_ours(*args):
    out = subprocess.run([f"{os.environ.get('BUILD', 'build/release')}/bench/text_bench", *map(str, args)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def run_theirs(t, texts):
    start = time.perf_counter()
    encoded = t.encode_batch_fast(texts, add_special_tokens=False)
    return time.perf_counter() - start, encoded


def bench_encode(folder, kind, vocab_size, rounds, texts, training):
    t = make_tokenizer(kind, vocab_size, training)
    path, docs = folder / f"{kind}-{vocab_size}.json", folder / "docs"
    t.save(str(path))
    ours = theirs = float("inf")
    for _ in range(rounds):
        mine = run_ours("encode", path, docs, 3)
        ours = min(ours, mine["seconds"])
        for _ in range(3):
            seconds, encoded = run_theirs(t, texts)
            theirs = min(theirs, seconds)
        ids = [i for e in encoded for i in e.ids]
        if hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest() != mine["hash"]:
            sys.exit(f"{kind} {vocab_size}: the ids differ; a speed of something else means nothing")
    n, size = mine["tokens"], mine["bytes"]
    print(f"{kind:6s} vocabulary {vocab_size:6d}: hone {n / ours / 1e6:6.2f} M tokens/s ({size / ours / 1e6:6.1f} MB/s), "
          f"tokenizers {n / theirs / 1e6:6.2f} M tokens/s ({size / theirs / 1e6:6.1f} MB/s), ratio {theirs / ours:5.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab_size", type=int, nargs="*", default=[2000, 30000])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    texts, training = documents(2 << 20, 0), documents(8 << 20, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "docs").write_bytes(b"".join(t.encode() + b"\0" for t in texts))
        for kind in ("qwen", "gpt2"):
            for vocab_size in args.vocab_size:
                bench_encode(folder, kind, vocab_size, args.rounds, texts, training)
        seconds = run_ours("train", folder / "trained.json", folder / "docs", 2000)["seconds"]
        start = time.perf_counter()
        make_tokenizer("qwen", 2003, texts)
        print(f"training 2000 tokens on {sum(len(t.encode()) for t in texts) / 1e6:.1f} MB: hone {seconds:.2f} s, tokenizers {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
