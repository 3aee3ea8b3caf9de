#!/usr/bin/env python3
"""Writes the character classes that the tokenizer's splitter needs as a C file (stdout or the path
given).

unicodedata2 16.0.0 is the version whose categories equal those of the tokenizers package (its
regular expressions and \\w); tests/text/test_tokenizer_hf.c compares every code point, so a newer
tokenizers shows up there. The composition data behind tokenizers' NFC is older: it stops at Unicode
9. A character that got its combining class or its composition later is a plain starter there, which
NFC_BREAKS lists; src/text/tokenizer_nfc.c cuts the text at them."""
import sys

import unicodedata2 as ucd

VERSION = "16.0.0"
BLOCK = 128
L, N, S, M, W, NFC_CHECK, NFC_BREAK = (1 << i for i in range(7))

# \s of Oniguruma and of Rust's regex crate: the property White_Space.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
# \w is Alphabetic + M + Nd + Pc + Join_Control. What Alphabetic has beyond L, Nl and M: the circled
# and squared letters.
WORD_EXTRA = {0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A),
              *range(0x1F170, 0x1F18A)}
NFC_BREAKS = (
    (0x7FD, 0x7FD), (0x897, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C), (0xEBA, 0xEBA),
    (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x10D24, 0x10D27), (0x10D69, 0x10D6D),
    (0x10EAB, 0x10EAC), (0x10EFD, 0x10EFF), (0x10F46, 0x10F50), (0x10F82, 0x10F85), (0x11070, 0x11070),
    (0x1133B, 0x1133B), (0x113CE, 0x113D0), (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x11930, 0x11930),
    (0x1193D, 0x1193E), (0x11943, 0x11943), (0x119E0, 0x119E0), (0x11A34, 0x11A34), (0x11A47, 0x11A47),
    (0x11A99, 0x11A99), (0x11D42, 0x11D42), (0x11D44, 0x11D45), (0x11D97, 0x11D97), (0x11F41, 0x11F42),
    (0x1612F, 0x1612F), (0x16FF0, 0x16FF1), (0x1E08F, 0x1E08F), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE),
    (0x1E2EC, 0x1E2EF), (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF),
    # First parts of Unicode 16's new compositions; a utf8proc of that version would compose them.
    (0x105D2, 0x105D2), (0x105DA, 0x105DA), (0x11382, 0x11382), (0x11384, 0x11384), (0x1138B, 0x1138B),
    (0x11390, 0x11390), (0x113C2, 0x113C2), (0x1611E, 0x1611E), (0x16121, 0x16122), (0x16129, 0x16129),
    (0x16D63, 0x16D63), (0x16D67, 0x16D67), (0x16D69, 0x16D69),
)


def nfc_suspects():
    """Characters after which "this text is already NFC" can no longer be answered at a glance."""
    # Hangul vowels and finals compose by rule, not by table
    suspects = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for cp in range(0x110000):
        if 0xD800 <= cp < 0xE000:
            continue
        c = chr(cp)
        if ucd.combining(c) or ucd.normalize("NFC", c) != c:
            suspects.add(cp)
        parts = ucd.decomposition(c).split()
        # not a singleton such as OHM SIGN, whose one part is an ordinary letter
        if len(parts) == 2 and not parts[0].startswith("<"):
            suspects.add(int(parts[1], 16))
    return {cp for cp in suspects if cp >= 0x300}


def flags_of(cp, suspects):
    category = ucd.category(chr(cp))
    flags = {"L": L, "N": N, "M": M}.get(category[0], 0)
    if cp in SPACES:
        flags |= S
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or cp in WORD_EXTRA:
        flags |= W
    if cp in suspects:
        flags |= NFC_CHECK
    return flags


def main():
    if ucd.unidata_version != VERSION:
        sys.exit(f"unicode_tables.py: needs unicodedata2 {VERSION}, found {ucd.unidata_version}: install that version "
                 f"into build/venv")
    suspects = nfc_suspects()
    flags = [flags_of(cp, suspects) for cp in range(0x110000)]
    for first, last in NFC_BREAKS:
        for cp in range(first, last + 1):
            flags[cp] |= NFC_BREAK
    blocks, index = {}, []
    for start in range(0, 0x110000, BLOCK):
        index.append(blocks.setdefault(bytes(flags[start:start + BLOCK]), len(blocks)))
    lines = [f"/* Made by tools/unicode_tables.py from Unicode {VERSION}: do not edit. */"]
    lines.append(f"const uint16_t unicode_block[{len(index)}] = {{")
    lines += ["\t" + " ".join(f"{i}," for i in index[k:k + 32]) for k in range(0, len(index), 32)]
    lines.append("};")
    lines.append(f"const uint8_t unicode_flags[{len(blocks)}][{BLOCK}] = {{")
    for block in blocks:
        lines.append("\t{")
        lines += ["\t\t" + " ".join(f"{f}," for f in block[k:k + 32]) for k in range(0, BLOCK, 32)]
        lines.append("\t},")
    lines.append("};")
    text = "\n".join(lines) + "\n"
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="ascii") as out:
            out.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
