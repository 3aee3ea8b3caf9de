#!/usr/bin/env python3
"""Checks a tokenizer that hone trained: Hugging Face's tokenizers loads it, encodes to the same
ids, and its own trainer gives the same merges.

usage: text_train_check.py DIR NFC

DIR has tokenizer.json, files.txt (the texts' paths) and ids.bin (for each text: u32 count, ids),
all written by tests/text/test_tokenizer_train.c."""
import json
import pathlib
import struct
import sys

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def main():
    folder, nfc = pathlib.Path(sys.argv[1]), sys.argv[2] == "1"
    texts = [pathlib.Path(p).read_bytes().decode() for p in (folder / "files.txt").read_text().split()]
    ours = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    # Texts lie one behind the other, each with its count of ids.
    data, at = (folder / "ids.bin").read_bytes(), 0
    for i, text in enumerate(texts):
        (count,) = struct.unpack_from("<I", data, at)
        ids = list(struct.unpack_from(f"<{count}i", data, at + 4))
        at += 4 + 4 * count
        expected = ours.encode(text, add_special_tokens=False).ids
        if ids != expected:
            sys.exit(f"text {i}: ids differ from position "
                     f"{next(k for k, (a, b) in enumerate(zip(ids + [-1], expected + [-1])) if a != b)}")
        if ours.decode(ids, skip_special_tokens=False) != (ours.normalizer.normalize_str(text) if nfc else text):
            sys.exit(f"text {i}: decoding does not give the text back")
    if at != len(data):
        sys.exit("ids.bin has more texts than files.txt")

    # Hugging Face's trainer on the same texts has the same merges, in the same order.
    theirs = Tokenizer(models.BPE())
    if nfc:
        theirs.normalizer = normalizers.NFC()
    theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"),
                                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=len(model["vocab"]), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    theirs.train_from_iterator(texts, trainer)
    expected = json.loads(theirs.to_str())["model"]
    for i, (a, b) in enumerate(zip(model["merges"], expected["merges"])):
        if a != b:
            sys.exit(f"merge {i}: {a}, Hugging Face's trainer has {b}")
    if model["merges"] != expected["merges"] or model["vocab"] != expected["vocab"]:
        sys.exit("vocabulary or number of merges differs from Hugging Face's trainer")
    print(f"{len(texts)} texts, {len(model['merges'])} merges", file=sys.stderr)


if __name__ == "__main__":
    main()
