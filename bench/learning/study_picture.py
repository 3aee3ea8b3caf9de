"""Pictures of studies.

    study_picture.py DIR/s1 OUT.svg [ANSWERS]
    study_picture.py DIR/STUDY OUT.svg start ARM...

The first is of study s1: how many answers cheat, by the full verifier, where the stock check pays
and where hone's verdict pays. It reads DIR/s1/ARM-SEED/run/hone.db of the arms stock and genuine. A
cheat is an answer whose verdict is cheat or partial: kernels that nobody needs, or torch's
operators in their place. Thin lines are seeds, thick ones their mean, over windows of ANSWERS
answers (128); a run counts as far as the shortest of its arm.

The second is greedy pass@1 of these arms, seed by seed, from start-test.jsonl and
ARM-SEED/test.jsonl as `hone eval --out` writes them."""
import collections, glob, json, os, sqlite3, sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 300, 60, 40, 700, 240
COLOURS = {"stock": ("#d08a2e", "paid by the stock check"), "genuine": ("#2f6f9f", "paid by hone's verdict")}


def cheats(path):
    """Of each answer in order: whether it cheats."""
    rows = sqlite3.connect(path).execute("SELECT row FROM samples ORDER BY step, idx")
    return [json.loads(r)["verdict"]["verdict"] in ("cheat", "partial") for r, in rows]


def shares(answers, size):
    return [sum(answers[i:i + size]) / size for i in range(0, len(answers) - size + 1, size)]


def path_of(points, count, top, colour, width):
    at = lambda i, y: f"{LEFT + (RIGHT - LEFT) * i / max(1, count - 1):.1f},{BOTTOM - (BOTTOM - TOP) * y / top:.1f}"
    return (f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" '
            f'points="{" ".join(at(i, y) for i, y in enumerate(points))}"/>')


BARS = {"start": ("#b9c0c7", "start"), "control": ("#8fa7bf", "its pairs continued"),
        "top": ("#d08a2e", "fit of own samples"), "pairs": ("#a0729a", "verified pairs alone"),
        "expert": ("#7f9f5f", "expert iteration"), "online": ("#2f6f9f", "online RL"),
        "refit": ("#7f9f5f", "online RL, no pairs"), "keep": ("#2f6f9f", "online RL, verified pairs kept")}


def greedy(path):
    classes = [json.loads(line)["verdict"]["verdict"] for line in open(path)]
    return sum(c == "genuine" for c in classes) / max(1, sum(c != "infra" for c in classes))


def bars(folder, out, arms):
    path = lambda arm, seed: f"{folder}/start-test.jsonl" if arm == "start" else f"{folder}/{arm}-{seed}/test.jsonl"
    seeds = [s for s in range(1, 10) if all(os.path.exists(path(a, s)) for a in arms)]
    if not seeds:
        sys.exit(f"{folder}: no seed has answers of all these arms: {' '.join(arms)}")
    wide = (RIGHT - LEFT) / len(seeds)
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f"<title>Greedy pass@1 on held-out tasks, {len(seeds)} seeds (docs/results.md)</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for i in range(6):
        y = BOTTOM - (BOTTOM - TOP) * i / 5
        text.append(f'<line x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}" stroke="#ddd"/>'
                    f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{i / 5:.1f}</text>')
    for k, seed in enumerate(seeds):
        step = (wide - 30) / len(arms)
        for i, arm in enumerate(arms):
            value = greedy(path(arm, seed))
            x, y = LEFT + k * wide + 15 + i * step, BOTTOM - (BOTTOM - TOP) * value
            text.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{step - 6:.1f}" height="{BOTTOM - y:.1f}" '
                        f'fill="{BARS[arm][0]}"/><text x="{x + step / 2 - 3:.1f}" y="{y - 5:.1f}" '
                        f'text-anchor="middle">{value:.3f}</text>')
            print(f"{arm} {seed}: {value:.3f}")
        middle = LEFT + (k + 0.5) * wide
        text.append(f'<text x="{middle:.1f}" y="{BOTTOM + 18}" text-anchor="middle">seed {seed}</text>')
    for i, arm in enumerate(arms):
        x = LEFT + i * (RIGHT - LEFT) / len(arms)
        text.append(f'<rect x="{x:.1f}" y="270" width="12" height="12" fill="{BARS[arm][0]}"/>'
                    f'<text x="{x + 17:.1f}" y="280">{BARS[arm][1]}</text>')
    with open(out, "w") as f:
        f.write("\n".join(text + ["</svg>"]) + "\n")


def main(folder, out, size="128"):
    arms = collections.defaultdict(list)
    for path in sorted(glob.glob(f"{folder}/*-[0-9]*/run/hone.db")):
        arms[os.path.basename(os.path.dirname(os.path.dirname(path))).rsplit("-", 1)[0]].append(shares(cheats(path),
            int(size)))
    arms = {a: [s[:min(map(len, arms[a]))] for s in arms[a]] for a in COLOURS if arms[a]}
    count = max(len(s) for seeds in arms.values() for s in seeds)
    top = max(0.2, -(-max(max(s) for seeds in arms.values() for s in seeds) // 0.1) * 0.1)
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12">',
            "<title>Share of answers that cheat, over a run (docs/results.md, study s1)</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for i in range(5):
        y = BOTTOM - (BOTTOM - TOP) * i / 4
        text.append(f'<line x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}" stroke="#ddd"/><text x="{LEFT - 8}" '
                    f'y="{y + 4}" text-anchor="end">{100 * top * i / 4:.0f} %</text>')
    for place, (arm, seeds) in enumerate(arms.items()):
        colour, name = COLOURS[arm]
        mean = [sum(x) / len(x) for x in zip(*seeds)]
        text += [path_of(s, count, top, colour, 0.8) for s in seeds] + [path_of(mean, count, top, colour, 3)]
        text.append(f'<text x="{LEFT + 10 + 300 * place}" y="24" fill="{colour}" font-weight="bold">{name}: '
                    f'{100 * mean[0]:.0f} % to {100 * mean[-1]:.0f} % '
                    f"({len(seeds)} seeds)</text>")
        print(f"{arm}: " + " ".join(f"{m:.3f}" for m in mean))
    text.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 24}" text-anchor="middle">answers in the run (to '
                f'{count * int(size)}); share that cheats, by the full '
                "verifier</text></svg>")
    with open(out, "w") as f:
        f.write("\n".join(text) + "\n")


if sys.argv[3:4] == ["start"]:
    bars(sys.argv[1], sys.argv[2], sys.argv[3:])
else:
    main(*sys.argv[1:4])
