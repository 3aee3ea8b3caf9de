"""The share of a corpus that `make test` takes (tests/verify/graded_folder.h has the same rule):
names whose SHA-256 falls into the first fifth of all hashes; with CORPORA=all (make
test-corpora) every name."""
import hashlib
import os

SHARE = 0.2
SHARE_MIN, SHARE_MAX = 0.1, 0.4   # a rule that takes nearly none or nearly all is none

is_all = os.environ.get("CORPORA") == "all"


def is_in(name):
    return is_all or int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2 ** 32 < SHARE


def is_right(taken, total):
    """Whether so many of all are what the rule should come to."""
    return taken == total if is_all else SHARE_MIN * total <= taken <= SHARE_MAX * total
