"""hone bench gpu on the CPU, which runs the same code over the smallest shape: every figure's
arithmetic, what has a bar and what has none, what is refused."""
import glob, json, os, re, resource, signal, subprocess, sys

sys.path.append("tests")
from command import check, done, hone, run

SMALL = ["--device", "cpu", "--shapes", "demo", "--context", "40", "--repeats", "3"]
PARTS = ["--parts", "decode,prefill,train,rollout,invariant", "--tokens", "70", "--prefill", "48", "--answer", "3",
         "--batches", "2,256"]


def bench(*args, expect=0):
    p = run(hone, "bench", "gpu", *args, expect=expect)
    return p, json.loads(p.stdout)[0] if "--json" in args and p.stdout else {}


p, shape = bench(*SMALL, *PARTS, "--json")
f = shape.get("figures", {})
check("every part has its figures",
      set(f) == {"decode_2", "decode_256", "prefill", "train", "train_reference", "rollout", "invariant_64"},
      p.stdout + p.stderr)
check("rates are positive, shares are of the ceilings",
      all(r["value"] > 0 and ("ceiling" not in r or abs(r["share"] - r["value"] / r["ceiling"]) < 1e-4 * r["share"])
          for r in f.values()), f)
# the floor of a decode step: weights but for nothing (embeddings are tied), fp32, over the copy's
# rate, or multiplied by the rows at the product's fastest, whichever takes
# longer; and keys and values
weights = 1024 * 192 + 4 * (192 * (2 * 192 + 2 * 64) + 3 * 192 * 512 + 2 * 192 + 2 * 32) + 192
for batch in (2, 256):
    reads, multiplies = 4 * weights / shape["copy_bytes_per_s"], 2 * weights * batch / shape["product_peak_flop_per_s"]
    floor = max(reads, multiplies) + 4 * 2 * 4 * 64 * 40 * batch / shape["copy_bytes_per_s"]
    check(f"decode, batch {batch}: the ceiling is what a step has to read, or to multiply",
          abs(f[f"decode_{batch}"]["ceiling"] * floor / batch - 1) < 1e-4, f)
# products of a forward pass and its head against the product's rate: twice without a reference,
# three times with it
linear = 4 * (192 * (2 * 192 + 2 * 64) + 3 * 192 * 512)
rows = sum(t % 4 != 3 and t < 69 for t in range(70))
flops = 2 * 70 * linear + 4 * 4 * 192 * sum(range(1, 71)) + 2 * rows * 192 * 1024
for key, passes in (("train", 2), ("train_reference", 3)):
    check(f"{key}: the ceiling is the arithmetic of {passes} passes",
          abs(f[key]["ceiling"] * passes * flops / shape["product_flop_per_s"] / 70 - 1) < 1e-4, f)
check("the product's fastest moment is no slower than what it sustains",
      shape["product_peak_flop_per_s"] >= shape["product_flop_per_s"], shape)
check("figures at other sizes have no bar", not any("must" in r for r in f.values()), f)
p, shape = bench("--device", "cpu", "--shapes", "demo", "--context", "9", "--repeats", "1", "--json",
                 "--batches", "1024")
check("nor has another context; a small shape decodes alone",
      list(shape.get("figures", {})) == ["decode_1024"] and "must" not in shape["figures"]["decode_1024"], shape)
p, _ = bench(*SMALL, "--parts", "decode,prefill", "--prefill", "48", "--batches", "2")
check("in words, with the ceilings first",
      "copy" in p.stdout.split("\n")[0] and "decode, batch 2, context 40" in p.stdout, p.stdout)
told = re.search(r"context 40 +([\d.]+) tok/s.*\(([\d.]+) to ([\d.]+) ms\)", p.stdout)
rate, low, high = map(float, told.groups()) if told else (0, 0, 0)
check("and a rate is that of a time between the two", (low - 0.006) * rate <= 2000 <= (high + 0.006) * rate, p.stdout)
told = re.search(r"48 packed tokens +([\d.]+) TFLOP/s", p.stdout)
check("in its unit: no CPU has a hundred TFLOP/s", told and float(told[1]) < 100, p.stdout)
# a part's rows are there when it ends, while the next one is measured
p = subprocess.Popen([hone, "bench", "gpu", *SMALL, "--parts", "decode,train", "--batches", "2", "--tokens", "8192"],
                     stdout=subprocess.PIPE, text=True)
lines = [p.stdout.readline(), p.stdout.readline()]
check("rows are told as they are measured",
      "copy" in lines[0] and "decode, batch 2" in lines[1] and p.poll() is None, lines)
p.kill()
p.communicate()
# folders of benchmarks that were ended go with the next one's; those of others who run stay, in
# whichever order the folder lists them
ended = subprocess.Popen(["true"])
ended.wait()
folders = [f"/tmp/hone-bench-{pid}-test{i:02}" for i in range(8) for pid in (os.getpid(), ended.pid)]
for folder in folders:
    os.makedirs(folder, exist_ok=True)
p = subprocess.Popen([hone, "bench", "gpu", "--device", "cpu", "--shapes", "demo", "--layers", "1", "--parts", "load",
                      "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
told, said = p.communicate(timeout=300)
check("load: its own folder is gone when it ends", not glob.glob(f"/tmp/hone-bench-{p.pid}-*"), said)
shape = json.loads(told)[0] if told else {}
left = [f for f in folders if os.path.isdir(f)]
for folder in left:
    os.rmdir(folder)
check("load: folders of those that ended are taken away, and no others", left == folders[::2], left)
row = shape.get("figures", {}).get("load", {})
check("load: a folder is written, opened twice and timed",
      row.get("value", 0) > 0 and row.get("unit") == "s" and "must" not in row, told + said)


def small_files():
    """The demo's one layer has more than a MiB of weights: writing them fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


p = subprocess.Popen([hone, "bench", "gpu", "--device", "cpu", "--shapes", "demo", "--layers", "1", "--parts", "load"],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=small_files)
said = p.communicate(timeout=300)[1]
left = glob.glob(f"/tmp/hone-bench-{p.pid}-*")
check("load: a folder that cannot be written is taken away", p.returncode == 1 and "large" in said and not left,
      (p.returncode, said, left))
p, shape = bench("--device", "cpu", "--shapes", "demo", "--layers", "1", "--parts", "ranks", "--answer", "2",
                 "--tokens", "4096", "--json")
row = shape.get("figures", {}).get("ranks", {})
check("ranks: two processes beside one, whose rate is the ceiling",
      row.get("value", 0) > 0 and abs(row["share"] - row["value"] / row["ceiling"]) < 1e-4 * row["share"]
      and "figures" in shape and shape["skipped"] == [], p.stdout + p.stderr)
p, shape = bench("--device", "cuda", "--shapes", "demo", "--parts", "ranks", "--ranks", "64", "--json", expect=1)
check("without so many GPUs it is skipped, by name and counted",
      len(shape.get("skipped", [])) == 1 and "needs 64 GPUs" in shape["skipped"][0], p.stdout + p.stderr)
check("and the whole reason is told",
      shape.get("skipped") and ("--device cpu)" in shape["skipped"][0] or "this machine has" in shape["skipped"][0]),
      shape)
check("nothing was measured: that is a failure, and is said",
      p.returncode == 1 and "hone bench: nothing was measured, 1 skipped; ranks: needs 64 GPUs" in p.stderr, p.stderr)
p, shape = bench("--device", "cuda:1", "--shapes", "demo", "--parts", "ranks", "--json", expect=1)
check("one GPU that was named is none for each of several ranks", p.returncode == 1 and len(shape.get("skipped", []))
      == 1 and shape["skipped"][0].startswith("ranks: --device cuda:1 is one GPU for all of them"), p.stdout + p.stderr)
# a smaller card shows what it can: what a shape brings by itself is left out and told with its
# sum, what was named is refused with it
p, shape = bench("--device", "cpu", "--shapes", "demo", "--memory", "60MiB", "--repeats", "1", "--json", expect=1)
left = (shape.get("skipped") or [""])[0]
kv, step, total, has = ([float(w) for w in re.findall(r"([\d.]+) MiB", left)] + [0] * 4)[:4]
check("a batch that does not fit is left out, with the sum",
      shape.get("figures") == {} and left.startswith("decode, batch 1024, context 300: ")
      and kv == 1024 * 10 * 32 * 4 * 2 * 64 * 4 / 2**20 and kv + step == total > has == 60, p.stdout + p.stderr)
check("where it was all that was asked for, nothing was measured",
      p.returncode == 1 and "nothing was measured, 1 skipped; decode, batch 1024" in p.stderr, p.stderr)
p, _ = bench(*SMALL, "--memory", "60MiB", "--batches", "2,4096", expect=1)
check("one that was named is refused, before anything is measured",
      p.returncode == 1 and "decode, batch 4096, context 40: " in p.stderr and not p.stdout, p.stdout + p.stderr)
p, _ = bench(*SMALL, "--batches", "65536", "--context", "1048576", expect=1)
check("so is one of more pages than there are numbers", p.returncode == 1 and "batch 65536" in p.stderr, p.stderr)
for args, said in ((("--shapes", "70b"), "demo,135m,8b"), (("--shapes", ""), "--shapes is empty"),
                   (("--parts", ""), "--parts is empty"), (("--batches", ""), "--batches is empty"),
                   (("--parts", "decode,all"), "prefill"),
                   (("--batches", "0"), "numbers of 1 to 65536"), (("--device", "tpu"), "expected cpu, cuda or cuda:N"),
                   (("more",), "unexpected argument")):
    p, _ = bench(*SMALL, *args, expect=None)
    check(f"refused: {' '.join(args)}", p.returncode != 0 and said in p.stderr, p.stdout + p.stderr)
done()
