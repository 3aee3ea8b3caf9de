#!/bin/bash
# tools/prose.py: wide prose is named and filled again, in comments of C, Python, shell and make, in
# Python's docstrings and in Markdown; code, lines with columns of their own and what tests/run.sh
# reads stay as they are.
# tools/format.sh --check names a wide line of prose that is planted in the sources, and a long
# function without a word (tools/steps.py), and a name of Python's that means nothing
# (tools/names.py).
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed "s/^/# /" "$work"/* 2>/dev/null; fi; }
prose() { build/venv/bin/python tools/prose.py "$@"; }
words='one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen'

printf '/* %s. */\nint x = 1; /* %s */\n\t/* first\n\t * %s\n\t * last */\n#define M \\\n\t/* %s */ \\\n\t1\n' \
	"$words" "$words" "$words" "$words" >"$work/a.c"
grep -v '/\*\| \*' "$work/a.c" >"$work/code"
[ "$(prose --check "$work/a.c")" = "$work/a.c:1
$work/a.c:4" ]
check $? "wide comments of C are named; those beside code and in macros are not"
prose "$work/a.c"
[ -z "$(prose --check "$work/a.c")" ] && [ "$(sed -n 1,2p "$work/a.c")" = "/* ${words% fifteen*}
 * fifteen sixteen seventeen. */" ] && [ "$(sed -n '4,$p' "$work/a.c" | head -4)" = "	/* first
	 * ${words% sixteen*}
	 * sixteen seventeen last */
#define M \\" ]
check $? "they are filled again, from the wide line to the end of the paragraph"
grep -v '/\*\| \*' "$work/a.c" | cmp -s - "$work/code" && cp "$work/a.c" "$work/again.c" && prose "$work/again.c" && cmp -s "$work/a.c" "$work/again.c"
check $? "code stays, and a second run changes nothing"

printf '/* a table:\n *   name      %s\n *             and on\n *   a  %s  c */\nint x; /* b\n          %s */\n' "$words" "$words" "$words" >"$work/c.c"
[ "$(prose --check "$work/c.c")" = "$(printf "$work/c.c:%s\n" 2 4 6)" ]
check $? "rows of a table are named, and what goes on below a comment beside code"
cp "$work/c.c" "$work/once.c"
prose "$work/c.c" >/dev/null
[ "$(sed -n 1,3p "$work/c.c")" = "/* a table:
 *   name      ${words% fifteen*}
 *             fifteen sixteen seventeen and on" ] && cmp -s <(sed 1,3d "$work/once.c") <(sed 1,3d "$work/c.c")
check $? "a table of two columns keeps its second one; one of three, and code, are left for a person"

printf '"""%s\nand more, in %s.  timeout: 900"""\nx = "%s"\n# a    b %s\n# %s\n# end\n' "$words" "$words" "$words" "$words" "$words" >"$work/b.py"
[ "$(prose --check "$work/b.py")" = "$(printf "$work/b.py:%s\n" 1 2 4 5)" ]
check $? "wide docstrings and comments of Python are named, strings are not"
prose "$work/b.py"
[ "$(prose --check "$work/b.py")" = "$work/b.py:6" ] && [ "$(sed -n 4,6p "$work/b.py" | cut -c1-16)" = 'timeout: 900"""
x = "one two thr
# a    b one two' ]
check $? "a line with columns of its own is left for a person; a timeout keeps its line"
[ "$(tail -2 "$work/b.py")" = "# ${words% fifteen*}
# fifteen sixteen seventeen end" ]
check $? "a comment of several lines is one paragraph, whose last line is no lost word"

printf '#!/bin/sh %s\n# %s\ncat <<-END\n\t# %s\n\tEND\nx=1 # %s\n\t# %s\n' "$words" "$words" "$words" "$words" "$words" >"$work/run.sh"
cp "$work/run.sh" "$work/Makefile"
[ "$(prose --check "$work/run.sh" "$work/Makefile")" = "$(printf "$work/%s\n" run.sh:2 run.sh:7 Makefile:2 Makefile:7)" ]
check $? "wide comments of shell and make are named; a first line, what a script writes and what stands behind code are not"
prose "$work/run.sh"
[ -z "$(prose --check "$work/run.sh")" ] && [ "$(sed -n 2,4p "$work/run.sh")" = "# ${words% fifteen*}
# fifteen sixteen seventeen
cat <<-END" ]
check $? "they are filled again"

printf '# %s\n%s\ntests\n- a list: %s\n  and on\n- one\n\n| %s | a |\n\n    %s\n```\n%s\n```\n' \
	"$words" "$words" "$words" "$words" "$words" "$words" >"$work/d.md"
[ "$(prose --check "$work/d.md")" = "$(printf "$work/d.md:%s\n" 2 4)" ]
check $? "paragraphs and items of Markdown are named; headings, tables and code are not"
prose "$work/d.md"
[ "$(sed -n 2,6p "$work/d.md")" = "${words% fifteen*}
fifteen sixteen seventeen tests
- a list: ${words% sixteen*}
  sixteen seventeen and on
- one" ]
check $? "they are filled again"
long=$(printf 'x%.0s' {1..60}) rest=$(printf 'y%.0s' {1..38})
echo "$long $rest - and on" >"$work/e.md"
prose "$work/e.md"
[ "$(cat "$work/e.md")" = "$long
$rest - and on" ]
check $? "no dash inside a sentence begins an item"
printf -- '- a\n  - %s\n    120) and on\n\n    %s\n' "$words" "$words" >"$work/f.md"
prose "$work/f.md"
[ "$(cat "$work/f.md")" = "- a
  - ${words% sixteen*}
    sixteen seventeen 120) and on

    $words" ]
check $? "an item goes on where it is indented by four; code behind an empty line stays"

# A tree of its own, with one source in each folder that the check reads.
mkdir -p "$work/tree/build" "$work/tree"/{src,tests,worker,bench,docs}
cp -r tools .clang-format "$work/tree" && ln -s "$PWD/build/venv" "$work/tree/build/venv"
echo "# hone" >"$work/tree/README.md"
printf '/* short */\nint x;\n' | tee "$work/tree"/{src,tests,worker,bench}/a.c >"$work/tree/src/a.h"
bash "$work/tree/tools/format.sh" --check >"$work/clean" && grep -q '^5 files are in the form' "$work/clean"
check $? "tools/format.sh finds nothing in sources of its form"
printf '/* %s */\nint x;\n' "$words" >"$work/tree/worker/a.c"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && grep -q '^worker/a.c:1: prose over 100 columns' "$work/planted"
check $? "it names a wide line of prose in C"
bash "$work/tree/tools/format.sh" && bash "$work/tree/tools/format.sh" --check >"$work/clean"
check $? "and breaks it where it writes"
{ printf 'int f(void)\n{\n'; for _ in {1..23}; do printf '\tf();\n'; done; printf '}\n'; } | tee "$work/planted_test.c" >"$work/tree/src/a.c"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && grep -q '^src/a.c:2: a function of 25 lines' "$work/planted"
check $? "it names a long function that says nothing of its steps"
sed -i '3s|^|\t/* What follows. */\n|' "$work/tree/src/a.c"
bash "$work/tree/tools/format.sh" --check >"$work/clean"
check $? "and none with a comment inside"
{ printf 'def f():\n'; for _ in {1..24}; do printf '    f()\n'; done; } >"$work/tree/worker/a.py"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && grep -q '^worker/a.py:1: a function of 25 lines' "$work/planted"
check $? "and such a one in Python"
rm "$work/tree/worker/a.py"
cp "$work/planted_test.c" "$work/tree/tests/a.c"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && grep -q '^tests/a.c:2: a function of 25 lines' "$work/planted"
check $? "and such a one in a test"
cp "$work/tree/src/a.c" "$work/tree/tests/a.c"
printf '# %s\nall:\n' "$words" >"$work/tree/tools/new.mk"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && grep -q '^tools/new.mk:1: prose over 100 columns' "$work/planted"
check $? "it names a wide comment of make"
rm "$work/tree/tools/new.mk"
echo "$words" >"$work/tree/docs/page.md"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && grep -q '^docs/page.md:1: prose over 100 columns' "$work/planted"
check $? "it names a wide line of a page"
rm "$work/tree/docs/page.md"
printf 'import os\nimport re    # for what it does\n\n\ndef f(x):\n    if x:\n        raise ValueErorr(x)\n' >"$work/tree/worker/a.py"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" &&
	[ "$(grep -c '^worker/a.py' "$work/planted")" -eq 2 ] && grep -q "^worker/a.py:1: 'os' imported but unused" "$work/planted" &&
	grep -q "^worker/a.py:7: undefined name 'ValueErorr'" "$work/planted"
check $? "it names a name of Python's that means nothing and an import that nobody uses, none that says why it is there"
printf 'import b\n\nb.SET_HERE = 1\nprint(b.HERE, b.SET_HERE, b.SET_THERE, b.f, b.GONE, b.__doc__)\n' >"$work/tree/worker/a.py"
printf 'HERE = 1\n\n\ndef f():\n    global SET_THERE\n    SET_THERE = GONE = 2\n    return SET_THERE, GONE\n' >"$work/tree/worker/b.py"
! bash "$work/tree/tools/format.sh" --check >"$work/planted" && [ "$(grep -c '^worker/[ab].py' "$work/planted")" -eq 1 ] &&
	grep -q "^worker/a.py:4: module 'b' has no 'GONE'" "$work/planted"
check $? "it names what a file takes from another that lacks it, and nothing that is there or set"
rm "$work/tree/worker/a.py" "$work/tree/worker/b.py"
echo "1..$number"
