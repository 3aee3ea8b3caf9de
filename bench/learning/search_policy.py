"""The sides of the study of `hone tune` (search.sh) that are not hone's: pairs from tables of whole
spaces, a policy that climbs, and the table.

    search_policy.py pairs OUT TABLE...   states of searches, the best point left as the answer
    search_policy.py climb                a policy command: a neighbour of the best point so far
    search_policy.py table DIR            best times found by arm and number of verdicts

TABLE is NAME.json, what `hone tune --json` says of all points of NAME.kernel.py, which lies beside
it with NAME.task.py."""
import glob, json, math, os, random, re, sys

TEMPLATE = "recipes/prompts/small-backend.txt"
VERDICTS = (3, 6, 12)
STATES = 40   # of each kernel: searches from a start of their own, every state of which is a pair
DRAWS = 4000


def point_of(text):
    return tuple((k, int(v)) for k, v in re.findall(r"(\w+)=(\d+)", text))


def text_of(point):
    return " ".join(f"{k}={v}" for k, v in point)


def space_of(kernel):
    return {k: [int(v) for v in values.split("|")] for k, values in re.findall(r"^# tune: (\w+) = (.*)$", kernel, re.M)}


def with_point(kernel, point):
    for k, v in point:
        kernel = re.sub(rf"^{k} = \d+", f"{k} = {v}", kernel, flags=re.M)
    return kernel


def times(path):
    """point -> seconds, None where it is no choice"""
    with open(path) as f:
        return {point_of(r["point"]): r["cost_s"] for r in json.load(f)["tried"]}


def tried_line(point, cost_s):
    return f"{text_of(point)}: {cost_s * 1e6:.3f} us"


def pairs(out, tables):
    """States as a search meets them: half of their points are the best that was
    left, half are drawn."""
    rng, template = random.Random(1), open(TEMPLATE).read()
    with open(out, "w") as f:
        for path in tables:
            base, known = path.removesuffix(".json"), times(path)
            task, kernel = (open(f"{base}.{part}.py").read().strip() for part in ("task", "kernel"))
            good = sorted((p for p in known if known[p]), key=known.get)
            for _ in range(STATES):
                tried = [rng.choice(good)]
                shown = with_point(kernel, tried[0])
                while len(tried) < min(VERDICTS[-1], len(good)):
                    left = [p for p in good if p not in tried]
                    said = {"task": task, "kernel": shown, "tried": "\n".join(tried_line(p, known[p]) for p in tried)}
                    prompt = re.sub(r"\{\{(\w+)\}\}", lambda m: said[m[1]], template)
                    f.write(json.dumps({"prompt": prompt + "\n", "completion": text_of(left[0]) + "\n",
                                        "split": "train"}) + "\n")
                    tried.append(left[0] if rng.random() < 0.5 else rng.choice(left))


def climb():
    """Where no neighbour of the best point is left, those of the next best; among
    neighbours a drawn one."""
    for line in sys.stdin:
        request = json.loads(line)
        rng, text = random.Random(request["seed"]), request["messages"][-1]["content"]
        space = space_of(text)
        rows = re.findall(r"^((?:\w+=\d+ ?)+): ([\d.]+) us$", text, re.M)
        cost = {point_of(p): float(t) for p, t in rows}
        seen = set(point_of(p) for p in re.findall(r"^((?:\w+=\d+ ?)+): ", text, re.M))
        answer = "none"
        for best in sorted(cost, key=cost.get):
            near = []
            for at, (k, v) in enumerate(best):
                i = space[k].index(v)
                values = space[k][max(0, i - 1):i] + space[k][i + 1:i + 2]
                near += [best[:at] + ((k, w),) + best[at + 1:] for w in values]
            near = [p for p in near if p not in seen]
            if near:
                answer = text_of(rng.choice(near))
                break
        print(json.dumps({"id": request["id"], "answer": answer}), flush=True)


def expected_best(known, given, verdicts):
    """Of plain search the mean over all orders: the start, and verdicts - 1 other
    points without repetition."""
    others = sorted(min(known[p] or math.inf, known[given]) for p in known if p != given)
    k, n = min(verdicts - 1, len(others)), len(others)
    # The i-th fastest is the best of those drawn when the rest comes from behind it.
    return sum(t * math.comb(n - i - 1, k - 1) for i, t in enumerate(others)) / math.comb(n, k)


def interval(rng, by_kernel):
    """Of the mean over kernels, kernels drawn."""
    drawn = sorted(sum(rng.choices(by_kernel, k=len(by_kernel))) / len(by_kernel) for _ in range(DRAWS))
    return f"[{drawn[int(0.025 * DRAWS)]:+.3f}, {drawn[int(0.975 * DRAWS)]:+.3f}]"


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def table(folder):
    rng = random.Random(1)
    known = {os.path.basename(p).removesuffix(".json"): times(p) for p in sorted(glob.glob(f"{folder}/test/*.json"))}
    least = {name: min(t for t in known[name].values() if t) for name in known}
    for name in known:
        t = sorted(x / least[name] for x in known[name].values() if x)
        print(f"{name}: {len(known[name])} points, {len(t)} with a time; best {least[name] * 1e6:.3f} us, "
              f"median x{t[len(t) // 2]:.3f}, worst x{t[-1]:.3f}")
    # arm -> verdicts -> kernel -> of each start what it ended at, and plain search by all orders
    found, asked = {}, {}
    for path in sorted(glob.glob(f"{folder}/*-[0-9]*/*.json")):
        arm = os.path.basename(os.path.dirname(path)).rsplit("-", 1)[0]
        name = os.path.basename(path).removesuffix(".json")
        with open(path) as f:
            r = json.load(f)
        costs = [x["cost_s"] or math.inf for x in r["tried"]]
        for v in VERDICTS:
            both = min(costs[:v]) / least[name], expected_best(known[name], point_of(r["given"]), v) / least[name]
            found.setdefault(arm, {}).setdefault(v, {}).setdefault(name, []).append(both)
        a = asked.setdefault(arm, [0, 0])
        a[0] += r["asked"]
        a[1] += r["without_point"]
    print("best time found over the space's best, mean over kernels and starts; beside it plain search from the same "
          "starts, the mean over all orders; the difference with its interval over kernels:")
    for arm, by_verdicts in found.items():
        print(f"{arm}: {len(by_verdicts[VERDICTS[0]])} kernels, {sum(map(len, by_verdicts[VERDICTS[0]].values()))} "
              f"searches, {asked[arm][0]} answers, {asked[arm][1]} of them without a new point of the space")
        for v, by_kernel in by_verdicts.items():
            own, plain = ([mean(x[side] for x in both) for both in by_kernel.values()] for side in (0, 1))
            differ = [x - y for x, y in zip(own, plain)]
            print(f"    {v:2} verdicts: {mean(own):.3f}, plain {mean(plain):.3f}, difference {mean(differ):+.3f} "
                  f"{interval(rng, differ)}")


def start(kernel, out, seed):
    """The kernel with the own point of that start."""
    text = open(kernel).read()
    rng = random.Random(f"{os.path.basename(kernel)} {seed}")
    with open(out, "w") as f:
        f.write(with_point(text, [(k, rng.choice(v)) for k, v in space_of(text).items()]))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    {"pairs": lambda: pairs(rest[0], rest[1:]), "climb": climb, "table": lambda: table(*rest),
     "start": lambda: start(*rest)}[what]()
