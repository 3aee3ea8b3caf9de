#!/usr/bin/env python3
"""Oracle of the tokenizer tests: small tokenizers of the known kinds, and what Hugging Face's
tokenizers does with many texts.

usage: text_oracle.py OUT

Writes OUT/<kind>/tokenizer.json and OUT/<kind>/cases.bin. A case is: u32 bytes of text, text; three
lists of u32 count, i32 items: ids with added tokens and what the post-processor adds; ids without
either; bytes of each word that the pre-tokenizer makes of the whole text (few vocabulary entries
tell where words end, so ids alone would not show a wrong split). A count of 0xffffffff: this list
is left out. Then two strings of u32 bytes, bytes: the first ids decoded, special tokens skipped and
kept. All little-endian, no terminators. The tokenizers are trained on this repository's own files,
so nothing has to be downloaded.

Texts: 2000 to 5000 fuzz strings for each kind, assigned code points alone, between letters and
after a space for the four kinds that models have, canonical compositions, long words.
HONE_FUZZ_TEXTS=N raises the fuzz strings of those four to N and takes every code point; without it
CJK ideographs and Hangul syllables, which are alike, are sampled (make fuzz-text: all, 50000). An
added token between two texts makes them strangers to each other, so many small ones share a
case."""
import hashlib
import itertools
import json
import os
import pathlib
import random
import struct
import sys

import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
FOREIGN = ["Größe café naïve señor", "速度 快い カーネル 커널 최적화", "скорость ядра", "गति तेज़ है", "سرعة النواة",
           "e\u0301a\u0308o\u0302 n\u0303", "👩‍🚀🚀✨ 1½ ²³ Ⅷ 𝔘"] * 40


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
    return ([AddedToken(n, special=True, normalized=False) for n in names]
            + [AddedToken(n, special=False, normalized=False) for n in ("<think>", "</think>")])


def odd_tokens():
    # Their letters are outside the byte alphabet on purpose: tokenizers decodes an added "é" as the
    # byte 0xe9, hone as "é".
    return [
        AddedToken("<mask>", special=True, lstrip=True, normalized=False),
        AddedToken("<fill>", special=True, rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("wőrd", single_word=True, normalized=True),
        AddedToken("<|im", normalized=False), AddedToken("kernel_", normalized=True),
        AddedToken("cafo\u030b", normalized=True),
        AddedToken("\n\n\n", normalized=False), AddedToken("速度", single_word=True, normalized=False),
        AddedToken("<mask", normalized=False),
    ]


def flag_tokens():
    """Two tokens for every combination of flags: <f0> to <f31>, and a word each; and contents that
    overlap them and each other. None is white space with lstrip: tokenizers panics
    ("AddedVocabulary bad split") where such a one lies in white space that the token before it took
    along."""
    tokens = []
    for n, (special, normalized, single_word, lstrip, rstrip) in enumerate(itertools.product((False, True), repeat=5)):
        for content in (f"<f{n}>", f"ő{n}wőrd"):
            tokens.append(AddedToken(content, special=special, normalized=normalized, single_word=single_word,
                                     lstrip=lstrip, rstrip=rstrip))
    overlapping = ("<f", "<f1", "f12>", "<f3><f4>", "5> <f6", ">", "<f7>\n", " <f8>", "ő9w", "őrd", "őrdő10", "wőrd11",
                   "o\u030b12", "ő13wőrd\u0301", " \n ", "\u3000")
    return (tokens + [AddedToken(c, special=i % 3 == 0, normalized=i % 2 == 0, lstrip=i % 5 == 0 and not c.isspace(),
                                 rstrip=i % 4 == 0, single_word=i % 7 == 0) for i, c in enumerate(overlapping)])


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
    return [AddedToken("<|begin_of_text|>", special=True, normalized=False),
            AddedToken("<|eot_id|>", special=True, normalized=False)]


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


def qwen_flags(t):
    qwen(t)
    return flag_tokens()


def llama3_flags(t):
    llama3(t)
    return flag_tokens() + [AddedToken("<|begin_of_text|>", special=True, normalized=False)]


# name -> (set up, merges in the old spelling, ignore_merges, share of merges dropped, whole byte
# alphabet, unk)
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
    "qwen-flags": (qwen_flags, True, False, 0.0, True, None),
    "llama3-flags": (llama3_flags, False, True, 0.1, True, None),
}
MAIN = ("qwen", "smollm", "gpt2", "llama3")   # those of models that hone is for
TEXTS = {kind: 5000 for kind in MAIN}   # 2000 for the others
SEPARATOR = "\x01"   # an added token of every kind
# all code points in longer contexts: its pattern tells all classes apart, and the others share them
EVERY_CONTEXT = ("qwen35",)
# The pieces that random texts are made of: what the patterns tell apart, and what splits in the
# middle of it.
PIECES = [
    " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u180e", "\u200b", "\x0b", "\x1c", "\x85", "'s", "'S",
    "'T", "'ll", "'LL", "'Ve",
    "'\u017f", "'", "''",
    "don't", "a", "Z", "kernel", "kernel_", "tl.load(", "ptr + offs", "mask=mask", "def ", "0", "12", "12345", "½", "٣",
    "Ⅷ", "é", "e\u0301", "cafe\u0301",
    "café", "cafo\u030b", "cafő",
    "\u0301", "\u0323\u0307", "\u0307\u0323", "ö", "wőrd", "ß", "ﬁ", "速", "速度", "カ\u3099", "한", "\u1112\u1161\u11ab",
    "ا\u064b", "क\u093c", "\u0958", "\u212b",
    "🚀", "👩‍🚀", "\ufe0f", "🇩🇪", "𝔘", "\U0001f13a", "_", "__", "->", "```", "#", "...", "!", "==", "{}", "\\", "\ufeff",
    "\ufffd", "\x00", "\x7f",
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im", "<think>", "</think>", "<mask>", "<mask", "<fill>", "<both>",
    "<", "|>", "<|eot_id|>", "\n\n\n",
    *"\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2029\u202f\u205f", "\x1d", "\x1e",
    "\x1f", "\x0c", "\r", " \r\n ", "\r\r\n\n",
    "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🏴\U000e0067\U000e0062\U000e007f", "가각", "\u1100\u1161", "\u1100\u1161\u11a8", "각\u11a8",
    "\u11a8\u1161", "\ua960\ud7b0",
    "e\u0323\u0301", "a\u0301\u0323\u0345", "@triton.jit\n", "x[:, None] ", "0x1F", "1e-6", "1_000", "f'{a!r}'", "i'm",
    "I'LL", "we'Re", "\u2019s", "n't",
    "\u0897", "\u08d3", "a\u08d3\u0323", "\U00011935\U00011930", "\U00011938", "\U000105d2\u0307", "    ", "\n    ",
    "\n\n\t\t",
]


FLAG_PIECES = ([t.content for t in flag_tokens()] + [" ", "  ", "\n", "\t", "\u3000", "\u00a0", "a", "_", "1", ".",
                                                     "\u0301", "o\u030b", "ő", "w", "rd", "<f", ">", "速"])


def random_texts(rng, count, pieces=PIECES):
    for _ in range(count):
        n = rng.choice((1, 2, 3, 5, 9, 30))
        yield "".join(rng.choice(pieces) if rng.random() < 0.95 else chr(rng.choice((rng.randrange(1, 0x3000),
            rng.randrange(0xac00, 0xb000), rng.randrange(0x1f000, 0x1fb00)))) for _ in range(n))


def long_words():
    for piece in ("a", "ab", "\n", " ", "é", "速", "🚀", "=-", "1", "e\u0301"):
        for n in (64, 95, 96, 97, 150, 1000):
            yield piece * n


def assigned():
    """Assigned code points, and a few that are not or are private."""
    for cp in range(ord(SEPARATOR) + 1, 0x110000):
        category = unicodedata2.category(chr(cp))
        if category != "Cs" and not (category == "Co" and cp % 997) and not (category == "Cn" and cp % 101):
            yield chr(cp)


# ideographs and syllables by the thousand
ALIKE = (range(0x3400, 0x9fff), range(0xac00, 0xd7a4), range(0x17000, 0x18d00), range(0x20000, 0x323b0))


def lone_code_points(chunk, step):
    """Each alone, between letters, after a space; of those alike one in step."""
    parts = []
    for c in assigned():
        if ord(c) % step and any(ord(c) in r for r in ALIKE):
            continue
        parts += [c, f"a{c}b", f" {c}"]
        if len(parts) >= 3 * chunk:
            yield SEPARATOR.join(parts)
            parts = []
    yield SEPARATOR.join(parts)


def code_point_texts(chunk):
    """Code points in contexts that show their classes."""
    line = []
    for c in assigned():
        line.append(f"a{c}1 {c}{c}.{c}\n" if ord(c) % 3 else f"{c}x\u0301{c} '{c}.")
        if len(line) == chunk:
            yield "".join(line)
            line = []
    yield "".join(line)


def normal_texts(chunk):
    """Canonical compositions and the order of combining classes."""
    parts = []
    for c in map(chr, range(1, 0x110000)):
        decomposed = unicodedata2.decomposition(c).split()
        if decomposed and not decomposed[0].startswith("<"):
            parts.append("".join(chr(int(p, 16)) for p in decomposed) + "\u0323\u0301" + c)
        if unicodedata2.combining(c):
            parts.append(f"a{c}\u0323 a\u0301{c}\u0334{c} {c}\u0345\u0302")
        if len(parts) >= chunk:
            yield SEPARATOR.join(parts)
            parts = []
    yield SEPARATOR.join(parts)


def train(kind):
    setup, old_merges, ignore, dropped, whole, unk = KINDS[kind]
    t = Tokenizer(models.BPE(unk_token=unk, fuse_unk=kind == "digit-runs"))
    added = setup(t) + [AddedToken(SEPARATOR, special=True, normalized=False)]
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    texts = corpus() if whole else [x for x in corpus() if x.isascii()]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if whole else []
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet,
                                                     special_tokens=[unk] if unk else [], show_progress=False))
    t.add_tokens([a for a in added if not a.special])
    t.add_special_tokens([a for a in added if a.special])
    if kind.startswith("llama3"):
        bos = "<|begin_of_text|>"
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, t.token_to_id(bos))])])
    o = json.loads(t.to_str())
    rng = random.Random(kind)
    o["model"]["merges"] = [m for m in o["model"]["merges"] if rng.random() >= dropped]
    o["model"]["ignore_merges"] = ignore
    if old_merges:
        o["model"]["merges"] = [" ".join(m) for m in o["model"]["merges"]]
    return o


def put(out, code, items):
    out.write(struct.pack(f"<I{len(items)}{code}", len(items), *items) if code == "i"
              else struct.pack("<I", len(items)) + items)


def write_cases(path, o, texts, shared):
    """shared: many small texts in one case, of which the first list is enough."""
    t = Tokenizer.from_str(json.dumps(o))
    bare = Tokenizer.from_str(json.dumps(
        {**o, "added_tokens": [a for a in o["added_tokens"] if a["content"] == "<|unk|>"], "post_processor": None}))
    left_out = struct.pack("<I", 0xffffffff)
    with open(path, "wb") as out:
        for some, whole in ((texts, True), (shared, False)):
            ids = [e.ids for e in t.encode_batch_fast(some)]
            plain = [e.ids for e in bare.encode_batch_fast(some)] if whole else [None] * len(some)
            for text, a, b, skipped, kept in zip(some, ids, plain, t.decode_batch(ids, skip_special_tokens=True),
                                                 t.decode_batch(ids, skip_special_tokens=False)):
                put(out, "s", text.encode())
                put(out, "i", a)
                if whole:   # a character a byte: the byte alphabet
                    put(out, "i", b)
                    put(out, "i", [len(word) for word, _ in t.pre_tokenizer.pre_tokenize_str(
                        t.normalizer.normalize_str(text) if t.normalizer else text)])
                else:
                    out.write(left_out + left_out)
                put(out, "s", skipped.encode())
                put(out, "s", kept.encode())


def main():
    out = pathlib.Path(sys.argv[1])
    count = int(os.environ.get("HONE_FUZZ_TEXTS", 0))
    stamp, made_by = out / "made-by", hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest() + f" {count}"
    if stamp.exists() and stamp.read_text() == made_by:
        return
    lone, contexts, normal = (list(lone_code_points(64, 1 if count else 16)), list(code_point_texts(64)),
                              list(normal_texts(8)))
    for kind in KINDS:
        folder = out / kind
        folder.mkdir(parents=True, exist_ok=True)
        o = train(kind)
        (folder / "tokenizer.json").write_text(json.dumps(o, ensure_ascii=len(kind) % 2 == 0), encoding="utf-8")
        n = max(count, TEXTS[kind]) if kind in MAIN else TEXTS.get(kind, 2000)
        texts = ["", *random_texts(random.Random(kind), n, FLAG_PIECES if kind.endswith("flags") else PIECES),
                 *long_words(), *(normal if kind == "qwen" else normal[::20])]
        texts += contexts if kind in EVERY_CONTEXT else contexts[::40]
        write_cases(folder / "cases.bin", o, texts, lone if kind in MAIN else [])
    stamp.write_text(made_by)


if __name__ == "__main__":
    main()
