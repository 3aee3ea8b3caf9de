"""The other side of `hone bench text`: Hugging Face's tokenizers on the same documents and
tokenizer.json files, one thread.

    python bench/peers/text_peer.py make DIR VOCAB_SIZE
        writes DIR/documents (a NUL after each) and DIR/<kind>.json; prints {"kinds": [...]}
    python bench/peers/text_peer.py encode DIR KIND PASSES [--cpu_time]
        prints {"seconds": best pass, "hash": of all ids}
    python bench/peers/text_peer.py train DIR VOCAB_SIZE [--cpu_time]
        prints {"seconds"}: training on the documents

Documents: Python sources of the installed packages (what the models read and write), 4 to 40 KB
each; vocabularies are trained on other files of the same kind. tokenizers' side is
encode_batch_fast, its fastest call (no offsets). The hash lets hone compare the ids: a speed of
something else means nothing."""
import hashlib
import json
import os
import pathlib
import struct
import sys
import sysconfig
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
# noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = 2 << 20


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


# kind -> (pre-tokenizer, normalizer, ignore_merges, added tokens)
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
KINDS = {
    "qwen": (split(QWEN), normalizers.NFC(), False, CHATML),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False)]), None, False, CHATML),
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=False), None, False, CHATML[:1]),
    "llama3": (split(QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")), None, True, ("<|begin_of_text|>", "<|eot_id|>")),
}


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


def trained(kind, vocab_size, texts):
    pre_tokenizer, normalizer, ignore_merges, added = KINDS[kind]
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in added])
    return t


def make(folder, vocab_size):
    (folder / "documents").write_bytes(b"".join(t.encode() + b"\0" for t in documents(BYTES, 0)))
    training = documents(4 * BYTES, 1)
    for kind in KINDS:
        trained(kind, vocab_size, training).save(str(folder / f"{kind}.json"))
    return {"kinds": list(KINDS)}


def encode(folder, kind, passes, clock):
    t, texts, seconds = Tokenizer.from_file(str(folder / f"{kind}.json")), read(folder), float("inf")
    for _ in range(passes):
        start = clock()
        encoded = t.encode_batch_fast(texts, add_special_tokens=False)
        seconds = min(seconds, clock() - start)
    ids = [i for e in encoded for i in e.ids]
    return {"seconds": seconds, "hash": hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()}


def train(folder, vocab_size, clock):
    texts = read(folder)
    start = clock()
    trained("qwen", vocab_size, texts)
    return {"seconds": clock() - start}


def read(folder):
    return [d.decode() for d in (folder / "documents").read_bytes().split(b"\0")[:-1]]


def main():
    clock = time.process_time if "--cpu_time" in sys.argv else time.perf_counter
    what, folder, *rest = [a for a in sys.argv[1:] if a != "--cpu_time"]
    folder = pathlib.Path(folder)
    done = {"make": lambda: make(folder, int(rest[0])), "train": lambda: train(folder, int(rest[0]), clock),
            "encode": lambda: encode(folder, rest[0], int(rest[1]), clock)}
    print(json.dumps(done[what]()))


if __name__ == "__main__":
    main()
