"""Prose in sources, at most 100 columns: comments that have lines of their own, in C, Python, shell
and make, Python's docstrings, and the paragraphs of Markdown. A paragraph that is wider is filled
again, from its first wide line on; everything else stays as it is. In a comment a table of two
columns keeps its second one. Lines with more columns of their own (two blanks inside), usage lines
and lists are for a person to break. In Markdown code, tables, headings and pictures are no prose.

usage: build/venv/bin/python tools/prose.py FILE...           writes
       build/venv/bin/python tools/prose.py --check FILE...   names the lines, changes nothing
"""
import ast, io, re, sys, textwrap, tokenize

WIDTH = 100
SHORT = 24   # a last line of fewer columns of text looks lost
IS_TABLE = re.compile(r"\S  +\S")
IS_ROW = re.compile(r"\s*[*#] {2,}(?=.{1,30}\S  )(- )?\S+( \S+)*  +")
IS_LIST = re.compile(r"(usage:|[-*] |--|\d+\. |python|build/|tools/|tests/|bench/)")
IS_MARKUP = re.compile(r"\||#|<|!\[|---")        # a line of Markdown that is no prose
MARK = r"([-*+#|>]|\d{1,2}\.)"                     # what begins a line of Markdown with a meaning
HERE = re.compile(r"<<-?\s*['\"]?(\w+)")               # begins the text of another file inside a script
TIMEOUT = re.compile(r"  (timeout: \d+\"\"\")$")   # what tests/run.sh reads keeps a line of its own


def kinds_python(source):
    """Line number -> "doc" or "comment", for those that hold nothing but prose."""
    lines, kinds = source.split("\n"), {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kinds.update((i, "doc") for i in range(node.lineno, node.end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("#"):
            kinds[token.start[0]] = "comment"
    return lines, kinds


def kinds_c(source):
    """The same of C: "c" for lines of block comments in which no code stands, and none of a macro.
    "beside" for the further lines of a comment that begins behind code: prose too, which a person
    moves above the code."""
    lines, kinds, block, beside = source.split("\n"), {}, [], False
    for i, line in enumerate(lines, 1):
        if block or line.lstrip().startswith("/*"):
            block.append(i)
        if block and "*/" in line:
            if line.rstrip().endswith("*/") and not any(lines[k - 1].endswith("\\") for k in block):
                kinds.update((k, "c") for k in block)
            block = []
        if not block and line.rfind("/*") > line.rfind("*/"):
            beside = True
        elif beside:
            kinds[i], beside = "beside", "*/" not in line
    return lines, kinds


def kinds_shell(source):
    """The same of shell and make: comments, but for those in texts that a script writes to other
    files."""
    lines, kinds, end = source.split("\n"), {}, None
    for i, line in enumerate(lines, 1):
        if end:
            end = None if line.strip() == end else end
        elif line.lstrip().startswith("#"):
            if not line.startswith("#!"):
                kinds[i] = "comment"
        elif here := HERE.search(line):
            end = here[1]
    return lines, kinds


def kinds_markdown(source):
    """The same of Markdown: paragraphs and items of lists. What is indented by four is code behind
    an empty line; below an item it goes on with it."""
    lines, kinds, fenced = source.split("\n"), {}, False
    for i, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line and not IS_MARKUP.match(line) and (i - 1 in kinds or not line.startswith("    ")):
            kinds[i] = "md"
    return lines, kinds


def kinds_of(path, source):
    by_end = {"py": kinds_python, "md": kinds_markdown, "sh": kinds_shell, "mk": kinds_shell, "Makefile": kinds_shell,
              "run": kinds_shell}
    return by_end.get(re.split(r"[./]", path)[-1], kinds_c)(source)


def shape(line, kind):
    """(what stands before the text, text). Of a row in C, a name and behind it a text, the name
    stands before."""
    if kind in ("c", "comment") and (row := IS_ROW.match(line)) and not IS_TABLE.search(line, row.end()):
        return row[0], line[row.end():]
    m = re.match({"comment": r"\s*#+ *", "doc": r"\s*", "c": r"\s*(/\* *|\*(?!/) *)?", "beside": "",
                  "md": rf"\s*({MARK} +)?"}[kind], line)
    return m[0], line[m.end():]


def follows(before, kind):
    """What stands before the text of a further line: blanks below a row's name or an item's
    mark."""
    if kind == "md":
        return " " * len(before)
    if kind not in ("c", "comment"):
        return before
    lead = re.match(r"\s*(#+|/?\*)?", before)[0]
    return lead.replace("/*", " *") + " " * (len(before) - len(lead))


def wrap(text, width, before, kind):
    return textwrap.wrap(text, width, initial_indent=before, subsequent_indent=follows(before, kind),
                         break_long_words=False, break_on_hyphens=False, expand_tabs=False, replace_whitespace=False)


def fill(text, before, kind):
    """The text in lines of at most WIDTH columns, of which a tab counts four. Where the last line
    would hold a word or two, the lines above it give it some of theirs."""
    width = WIDTH - 3 * before.count("\t")
    text = text.replace(" */", "\u00a0*/")   # the end of a comment stays beside its last word
    if kind == "md":
        text = re.sub(rf" (?={MARK} )", "\u00a0", text)   # a dash inside a sentence must not begin a line
    lines = wrap(text, width, before, kind)
    for narrower in range(width, width * 2 // 3, -1):
        closer = wrap(text, narrower, before, kind)
        if len(closer) > len(lines):
            break
        if len(closer[-1]) - len(follows(before, kind)) >= SHORT:
            lines = closer
            break
    return [line.replace("\u00a0", " ") for line in lines]


def is_end(line, kind):
    return kind == "doc" and line.endswith('"""') or kind == "c" and line.endswith("*/")


def is_apart(text, kind):
    """Whether a line has columns of its own or is an item, which no paragraph goes on with."""
    return kind != "md" and (IS_TABLE.search(text) or IS_LIST.match(text))


def paragraph(lines, kinds, first):
    """(the text from a wide line to the end of its paragraph, lines behind it, the next line)"""
    kind = kinds[first]
    before, text = shape(lines[first - 1], kind)
    behind, i = [], first + 1
    while i <= len(lines) and kinds.get(i) == kind and not is_end(lines[i - 2], kind):
        here, more = shape(lines[i - 1], kind)
        timeout = TIMEOUT.search(more)
        if timeout and kind == "doc" and here == before:
            return text + " " + more[:timeout.start()], [before + timeout[1]], i + 1
        if here != follows(before, kind) or not more or more == '"""' or is_apart(more, kind):
            break
        text, i = text + " " + more, i + 1
    return text, behind, i


def settled(path, source):
    """(the source with its prose filled, numbers of lines that a person has to break)"""
    lines, kinds = kinds_of(path, source)
    out, left, i = [], [], 1
    while i <= len(lines):
        line, kind = lines[i - 1], kinds.get(i)
        if not kind or len(line.expandtabs(4)) <= WIDTH:
            out.append(line)
            i += 1
            continue
        before, text = shape(line, kind)
        timeout = TIMEOUT.search(text)
        if timeout and kind == "doc":
            out += fill(text[:timeout.start()], before, kind) + [before + timeout[1]]
            i += 1
        elif kind == "beside" or is_apart(text, kind) or " " not in text.strip():
            left.append(i)
            out.append(line)
            i += 1
        else:
            text, behind, i = paragraph(lines, kinds, i)
            out += fill(text, before, kind) + behind
    return "\n".join(out), left


def main():
    is_check = sys.argv[1:2] == ["--check"]
    for path in sys.argv[1 + is_check:]:
        source = open(path).read()
        text, left = settled(path, source)
        if is_check:
            lines, kinds = kinds_of(path, source)
            left = [i for i in kinds if len(lines[i - 1].expandtabs(4)) > WIDTH]
        elif text != source:
            with open(path, "w") as out:
                out.write(text)
        for i in sorted(left) if is_check else []:
            print(f"{path}:{i}")


if __name__ == "__main__":
    main()
