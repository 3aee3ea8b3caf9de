#!/bin/bash
# tools/prose.py: wide prose is named and filled again, in C's comments and in Python's comments and docstrings; code,
# lines with columns of their own and what tests/run.sh reads stay as they are.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' "$work"/*; fi; }
prose() { build/venv/bin/python tools/prose.py "$@"; }
words='one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen'

printf '/* %s. */\nint x = 1; /* %s */\n\t/* first\n\t * %s\n\t * last */\n#define M \\\n\t/* %s */ \\\n\t1\n' \
	"$words" "$words" "$words" "$words" >"$work/a.c"
grep -v '/\*\| \*' "$work/a.c" >"$work/code"
[ "$(prose --check "$work/a.c")" = "$work/a.c:1
$work/a.c:4" ]
check $? "wide comments of C are named; those beside code and in macros are not"
prose "$work/a.c"
[ -z "$(prose --check "$work/a.c")" ] && [ "$(sed -n 1,2p "$work/a.c")" = "/* ${words% seventeen}
 * seventeen. */" ] && [ "$(sed -n '4,$p' "$work/a.c" | head -4)" = "	/* first
	 * ${words% sixteen seventeen}
	 * sixteen seventeen last */
#define M \\" ]
check $? "they are filled again, from the wide line to the end of the paragraph"
grep -v '/\*\| \*' "$work/a.c" | cmp -s - "$work/code" && cp "$work/a.c" "$work/again.c" && prose "$work/again.c" && cmp -s "$work/a.c" "$work/again.c"
check $? "code stays, and a second run changes nothing"

printf '"""%s\nand more, in %s.  timeout: 900"""\nx = "%s"\n# a    b %s\n# %s\n# end\n' "$words" "$words" "$words" "$words" "$words" >"$work/b.py"
[ "$(prose --check "$work/b.py")" = "$(printf "$work/b.py:%s\n" 1 2 4 5)" ]
check $? "wide docstrings and comments of Python are named, strings are not"
prose "$work/b.py"
[ "$(prose --check "$work/b.py")" = "$work/b.py:6" ] && [ "$(sed -n 4,6p "$work/b.py" | cut -c1-16)" = 'timeout: 900"""
x = "one two thr
# a    b one two' ]
check $? "a line with columns of its own is left for a person; a timeout keeps its line"
[ "$(tail -2 "$work/b.py")" = "# ${words% seventeen}
# seventeen end" ]
check $? "a comment of several lines is one paragraph"
echo "1..$number"
