"""The picture of the pipeline: one module, what each stage wrote, and its predicted time.

    at="--task docs/pipeline/task.py --cost_size stock --json"
    hone verify $at --candidate docs/pipeline/frontend.py >DIR/frontend.json
    hone verify $at --candidate docs/pipeline/midend.py >DIR/midend.json
    hone tune $at --candidate docs/pipeline/midend.py --verdicts 20 >DIR/tune.json
    tools/pipeline_picture.py DIR docs/pipeline.svg

Every number is from these three files; the picture refuses kernels that are not genuine."""
import json, sys

WIDTH, HEIGHT, BOX, TOP = 960, 250, 200, 50
GAP = (WIDTH - 40 - 4 * BOX) / 3
COLOURS = ("#8fa7bf", "#d08a2e", "#2f6f9f", "#4f8f5f")


def only(path):
    """The one record of a file that `hone verify --json` wrote."""
    o = json.load(open(path))
    o = o[0] if isinstance(o, list) else o
    if o["verdict"] != "genuine":
        sys.exit(f"{path}: {o['verdict']}/{o['reason']}: the picture is of genuine kernels")
    return o


def main(folder, out):
    front, mid = only(f"{folder}/frontend.json"), only(f"{folder}/midend.json")
    tune = json.load(open(f"{folder}/tune.json"))
    tried = {r["verdict"] for r in tune["tried"]}
    if tried != {"genuine"}:
        sys.exit(f"{folder}/tune.json: points with verdicts {sorted(tried)}")
    us = lambda s: f"{s * 1e6:.1f} us"
    mb = lambda o: f"{o['bytes'] / 1e6:.0f} MB asked for"
    eager = front["eager_cost_s"]
    boxes = [
        ("module", ["softmax(silu(x + bias))", "x: 8192 x 1000, fp32"], us(eager), "PyTorch's operators"),
        ("frontend: right", [f"{front['launches']} launches", mb(front)], us(front["cost_s"]),
         f"{eager / front['cost_s']:.2f}x"),
        ("mid-end: fused", [f"{mid['launches']} launch", mb(mid)], us(mid["cost_s"]),
         f"{eager / mid['cost_s']:.2f}x"),
        (f"backend: one {tune['gpu']}", [f"{len(tune['tried'])} of {tune['points']} points judged", tune["best"]],
         us(tune["best_s"]), f"{eager / tune['best_s']:.2f}x"),
    ]
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            'font-size="14">', "<title>One module through the pipeline, with predicted times (docs/agents.md)</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for i, (name, lines, time, speed) in enumerate(boxes):
        x = 20 + i * (BOX + GAP)
        text.append(f'<rect x="{x:.0f}" y="{TOP}" width="{BOX}" height="150" rx="8" fill="white" '
                    f'stroke="{COLOURS[i]}" stroke-width="2"/>'
                    f'<text x="{x + 12:.0f}" y="{TOP + 26}" font-weight="bold" fill="{COLOURS[i]}">{name}</text>')
        for k, line in enumerate(lines):
            text.append(f'<text x="{x + 12:.0f}" y="{TOP + 54 + 20 * k}">{line}</text>')
        text.append(f'<text x="{x + 12:.0f}" y="{TOP + 114}" font-size="22">{time}</text>'
                    f'<text x="{x + 12:.0f}" y="{TOP + 136}" fill="#555">{speed}</text>')
        if i:
            a = x - GAP
            text.append(f'<line x1="{a + 4:.0f}" y1="{TOP + 75}" x2="{x - 12:.0f}" y2="{TOP + 75}" stroke="#555" '
                        f'stroke-width="2"/><path d="M{x - 12:.0f} {TOP + 69} l10 6 l-10 6 z" fill="#555"/>')
    text.append(f'<text x="20" y="32" fill="#555">Each kernel judged genuine; times predicted for an {front["gpu"]} '
                "by the cost model, at the module's own sizes</text>")
    text.append(f'<text x="20" y="{TOP + 182}" fill="#555">A verdict stands between every two stages: '
                "a kernel that is not genuine goes no further.</text>")
    with open(out, "w") as f:
        f.write("\n".join(text + ["</svg>"]) + "\n")
    print(json.dumps([[b[0], b[2], b[3]] for b in boxes]))


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
