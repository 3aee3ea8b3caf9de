#!/usr/bin/env python3
"""Where tokenizers' NFC, which hone follows, is not Unicode 16's: at the characters of NFC_BREAKS
(tools/unicode_tables.py) and nowhere else. That hone's NFC is tokenizers' is test_tokenizer_hf's
part. A newer tokenizers with newer data shows up here."""
import sys

sys.path[:0] = ["tests", "tools"]
import unicodedata2 as ucd  # noqa: E402
from command import check, done  # noqa: E402
from tokenizers import normalizers  # noqa: E402
from unicode_tables import NFC_BREAKS  # noqa: E402

nfc = normalizers.NFC()
breaks = {c for first, last in NFC_BREAKS for c in range(first, last + 1)}


def texts():
    """Each combining character beside others, each canonical decomposition."""
    for c in map(chr, (*range(0xD800), *range(0xE000, 0x110000))):
        if ucd.combining(c):
            yield from (f"a{c}\u0323", f"a\u0301{c}", f"a{c}\u0334{c}")
        parts = ucd.decomposition(c).split()
        if parts and not parts[0].startswith("<"):
            whole = "".join(chr(int(p, 16)) for p in parts)
            yield from (c, whole, whole + "\u0323")


different = [t for t in texts() if nfc.normalize_str(t) != ucd.normalize("NFC", t)]
unexplained = [t for t in different if not {ord(c) for c in t} & breaks]
seen = {ord(c) for t in different for c in t} & breaks
check("every difference has a listed character", not unexplained, unexplained)
check("every listed character makes a difference", seen == breaks, sorted(map(hex, breaks - seen)))
combining = [c for c in breaks if ucd.combining(chr(c))]
check("135 characters, 120 of them with a combining class, as docs/tokenizers.md says",
      (len(breaks), len(combining)) == (135, 120), (len(breaks), len(combining)))
done()
