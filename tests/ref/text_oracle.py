#!/usr/bin/env python3
"""Oracle of the tokenizer tests: small tokenizers of the known kinds, and what Hugging Face's tokenizers does with many texts.

usage: text_oracle.py OUT
Writes OUT/<kind>/tokenizer.json and OUT/<kind>/cases.bin. A case is: u32 bytes of text, text; with and without added tokens: u32 ids, ids;
u32 words, the bytes of each word that the pre-tokenizer makes of the whole text (few vocabulary entries tell where words end, so ids alone
would not show a wrong split); u32 bytes, the ids (with added tokens) decoded, special tokens skipped. All little-endian, no terminators.
The tokenizers are trained on this repository's own files, so nothing has to be downloaded."""
import hashlib
import json
import pathlib
import random
import struct
import sys

import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FOREIGN = ["Größe café naïve señor", "速度 快い カーネル 커널 최적화", "скорость ядра", "गति तेज़ है", "سرعة النواة", "e\u0301a\u0308o\u0302 n\u0303", "👩‍🚀🚀✨ 1½ ²³ Ⅷ 𝔘"] * 40


def corpus():
    texts = list(FOREIGN)
    for pattern in ("src/**/*.[ch]", "docs/*.md", "tools/*.py", "tests/ref/*.py"):
        for path in sorted(ROOT.glob(pattern))[:60]:
            texts += path.read_text(encoding="utf-8", errors="ignore")[:40000].split("\n\n")
    return texts


def byte_level(prefix=False, regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(regex=False)])


def chat_tokens():
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return [AddedToken(n, special=True, normalized=False) for n in names] + [AddedToken(n, special=False, normalized=False) for n in ("<think>", "</think>")]


def odd_tokens():
    # Their letters are outside the byte alphabet on purpose: tokenizers decodes an added "é" as the byte 0xe9, hone as "é".
    return [
        AddedToken("<mask>", special=True, lstrip=True, normalized=False), AddedToken("<fill>", special=True, rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=False), AddedToken("wőrd", single_word=True, normalized=True),
        AddedToken("<|im", normalized=False), AddedToken("kernel_", normalized=True), AddedToken("cafo\u030b", normalized=True),
        AddedToken("\n\n\n", normalized=False), AddedToken("速度", single_word=True, normalized=False), AddedToken("<mask", normalized=False),
    ]


def qwen(t):
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = split(QWEN)
    return chat_tokens()


def gpt2(t):
    t.pre_tokenizer = byte_level()
    return [AddedToken("<|endoftext|>", special=True, normalized=False)]


def gpt2_prefix(t):
    t.pre_tokenizer = byte_level(prefix=True)
    return [AddedToken("<|endoftext|>", special=True, normalized=True)] + odd_tokens()


def llama3(t):
    t.pre_tokenizer = split(LLAMA)
    return [AddedToken("<|begin_of_text|>", special=True, normalized=False), AddedToken("<|eot_id|>", special=True, normalized=False)]


def smollm(t):
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
    return chat_tokens()


def qwen35(t):
    t.normalizer = normalizers.Sequence([normalizers.NFC()])
    t.pre_tokenizer = split(QWEN35)
    return chat_tokens() + odd_tokens()


def digit_runs(t):
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), byte_level()])
    return []


# name -> (set up, merges in the old spelling, ignore_merges, share of merges dropped, whole byte alphabet, unk)
KINDS = {
    "qwen": (qwen, False, False, 0.0, True, None),
    "qwen-gaps": (qwen, True, False, 0.1, True, None),
    "gpt2": (gpt2, True, False, 0.0, True, None),
    "gpt2-prefix": (gpt2_prefix, False, False, 0.0, True, None),
    "llama3": (llama3, False, True, 0.1, True, None),
    "smollm": (smollm, True, False, 0.0, True, None),
    "qwen35": (qwen35, False, False, 0.0, True, None),
    "digit-runs": (digit_runs, False, False, 0.0, False, "<|unk|>"),
    "no-unk": (digit_runs, False, False, 0.0, False, None),
}
EVERY_CODE_POINT = ("qwen", "gpt2", "qwen35")   # the others share their classes
# The pieces that random texts are made of: what the patterns tell apart, and what splits in the middle of it.
PIECES = [
    " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u180e", "\u200b", "\x0b", "\x1c", "\x85", "'s", "'S", "'T", "'ll", "'LL", "'Ve", "'\u017f", "'", "''",
    "don't", "a", "Z", "kernel", "kernel_", "tl.load(", "ptr + offs", "mask=mask", "def ", "0", "12", "12345", "½", "٣", "Ⅷ", "é", "e\u0301", "cafe\u0301", "café", "cafo\u030b", "cafő",
    "\u0301", "\u0323\u0307", "\u0307\u0323", "ö", "wőrd", "ß", "ﬁ", "速", "速度", "カ\u3099", "한", "\u1112\u1161\u11ab", "ا\u064b", "क\u093c", "\u0958", "\u212b",
    "🚀", "👩‍🚀", "\ufe0f", "🇩🇪", "𝔘", "\U0001f13a", "_", "__", "->", "```", "#", "...", "!", "==", "{}", "\\", "\ufeff", "\ufffd", "\x00", "\x7f",
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im", "<think>", "</think>", "<mask>", "<mask", "<fill>", "<both>", "<", "|>", "<|eot_id|>", "\n\n\n",
    "\u0897", "\u08d3", "a\u08d3\u0323", "\U00011935\U00011930", "\U00011938", "\U000105d2\u0307", "    ", "\n    ", "\n\n\t\t",
]


def random_texts(rng, count):
    for _ in range(count):
        n = rng.choice((1, 2, 3, 5, 9, 30))
        yield "".join(rng.choice(PIECES) if rng.random() < 0.95 else chr(rng.choice((rng.randrange(1, 0x3000), rng.randrange(0x1f000, 0x1fb00)))) for _ in range(n))
    for piece in ("a", "ab", "\n", " ", "é", "速", "🚀", "=-", "1", "e\u0301"):   # one long word, each way
        for n in (64, 95, 96, 97, 150, 1000):
            yield piece * n


def code_point_texts(chunk):
    """Every assigned code point (and some that are not) in contexts that show its classes."""
    line, count = [], 0
    for cp in range(1, 0x110000):
        c = chr(cp)
        category = unicodedata2.category(c)
        if category == "Cs" or (category == "Co" and cp % 997) or (category == "Cn" and cp % 101):
            continue
        line.append(f"a{c}1 {c}{c}.{c}\n" if cp % 3 else f"{c}x\u0301{c} '{c}.")
        count += 1
        if count % chunk == 0:
            yield "".join(line)
            line = []
    yield "".join(line)


def normal_texts():
    """Canonical compositions and the order of combining classes."""
    for cp in range(1, 0x110000):
        c = chr(cp)
        parts = unicodedata2.decomposition(c).split()
        if parts and not parts[0].startswith("<"):
            yield "".join(chr(int(p, 16)) for p in parts) + "\u0323\u0301" + c
        if unicodedata2.combining(c):
            yield f"a{c}\u0323 a\u0301{c}\u0334{c} {c}\u0345\u0302"


def train(kind):
    setup, old_merges, ignore, dropped, whole, unk = KINDS[kind]
    t = Tokenizer(models.BPE(unk_token=unk, fuse_unk=kind == "digit-runs"))
    added = setup(t)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    texts = corpus() if whole else [x for x in corpus() if x.isascii()]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if whole else []
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, special_tokens=[unk] if unk else [], show_progress=False))
    t.add_tokens([a for a in added if not a.special])
    t.add_special_tokens([a for a in added if a.special])
    if kind == "llama3":
        bos = "<|begin_of_text|>"
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, t.token_to_id(bos))])])
    o = json.loads(t.to_str())
    rng = random.Random(kind)
    o["model"]["merges"] = [m for m in o["model"]["merges"] if rng.random() >= dropped]
    o["model"]["ignore_merges"] = ignore
    if old_merges:
        o["model"]["merges"] = [" ".join(m) for m in o["model"]["merges"]]
    return o


def write_cases(path, o, texts):
    t = Tokenizer.from_str(json.dumps(o))
    bare = Tokenizer.from_str(json.dumps({**o, "added_tokens": [a for a in o["added_tokens"] if a["content"] == "<|unk|>"]}))
    with open(path, "wb") as out:
        for start in range(0, len(texts), 2000):
            part = texts[start:start + 2000]
            for text, a, b in zip(part, t.encode_batch(part, add_special_tokens=False), bare.encode_batch(part, add_special_tokens=False)):
                back = t.decode(a.ids, skip_special_tokens=True).encode()
                normal = t.normalizer.normalize_str(text) if t.normalizer else text
                words = [len(word) for word, _ in t.pre_tokenizer.pre_tokenize_str(normal)]   # a character a byte: the byte alphabet
                text = text.encode()
                out.write(struct.pack("<I", len(text)) + text)
                for ids in (a.ids, b.ids, words):
                    out.write(struct.pack(f"<I{len(ids)}i", len(ids), *ids))
                out.write(struct.pack("<I", len(back)) + back)


def main():
    out = pathlib.Path(sys.argv[1])
    stamp, made_by = out / "made-by", hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == made_by:
        return
    code_points, normal = list(code_point_texts(64)), list(normal_texts())
    for kind in KINDS:
        folder = out / kind
        folder.mkdir(parents=True, exist_ok=True)
        o = train(kind)
        (folder / "tokenizer.json").write_text(json.dumps(o, ensure_ascii=len(kind) % 2 == 0), encoding="utf-8")
        texts = ["", *random_texts(random.Random(kind), 3000), *(normal if kind == "qwen" else normal[::20])]
        texts += code_points if kind in EVERY_CODE_POINT else code_points[::20]
        write_cases(folder / "cases.bin", o, texts)
    stamp.write_text(made_by)


if __name__ == "__main__":
    main()
