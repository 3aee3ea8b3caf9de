# timeout: 180
"""The timer without a GPU: a reference gets exactly the bytes of its trial, whatever their layout,
and hands back what forward made of them; replays start from them again; a job on a machine without
a GPU says so from inside its sandbox, and leaves no folder behind. What the clock shows is
test-gpu's."""
import hashlib, mmap, os, socket, sys, tempfile
sys.path.insert(0, "tests")
sys.path.insert(0, "worker")
from command import check, done, work_folder

dir = work_folder("timer")
tempfile.tempdir = dir
import torch
import oracle_pack
import timer
import wire

timer.DEVICE = "cpu"
SOURCE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm1d(n)
        self.linear = nn.Linear(n, n, bias=False)
    def forward(self, x, pair, flag=None):
        x.add_(1)
        return self.bn(self.linear(x)) + pair[0].float(), pair[1].t().contiguous() if flag else None
def get_inputs(): return [torch.randn(5, 4), (torch.randint(0, 9, (5, 4)), torch.randn(4, 6).t()), True]
def get_init_inputs(): return [4]
"""


def memory(pack):
    pack.seal()
    size = os.fstat(pack.fd).st_size
    return mmap.mmap(pack.fd, size, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE)


# ---- data: an independent model with the same numbers, run by torch alone ----

torch.manual_seed(3)
pack = oracle_pack.Pack("given", 1 << 20)
inputs = [torch.randn(5, 4), torch.randint(0, 9, (5, 4)), torch.randn(4, 6).t()]
module = {}
exec(SOURCE, module)
want = module["Model"](4)
with torch.no_grad():
    for t in list(want.parameters()) + [want.bn.running_mean]:
        t.copy_(torch.randn(t.shape))
named = list(want.named_parameters()) + list(want.named_buffers())
trial = {"inputs": [], "params": []}
for i, t in enumerate(inputs):
    offset, size = pack.add(t)
    trial["inputs"].append({"name": "", "offset": offset, "bytes": size, "changes": i == 0})
for name, t in named:
    offset, size = pack.add(t.detach().contiguous())
    trial["params"].append({"name": name, "offset": offset, "bytes": size,
                            "changes": name.startswith("bn.running") or name == "bn.num_batches_tracked"})
spec = lambda t: {"tensor": {"dtype": oracle_pack.dtype_name(t), "shape": list(t.shape), "stride": list(t.stride()),
                             "requires_grad": False}}
asked = {"init_seed": 42, "mode": "eager", "training": True, "trial": trial, "input_kwargs": {},
         "inputs": [spec(inputs[0]), {"tuple": [spec(inputs[1]), spec(inputs[2])]}, True]}
timed = timer.Timed(dict(asked, source=SOURCE), memory(pack))
with torch.no_grad():
    expected = [t for t in want(inputs[0].clone(), (inputs[1], inputs[2]), True)]
check("no draws are seen where there are none", timed.draws == 0)
check("a transposed input keeps its strides", timed.call.tensors()[2].stride() == inputs[2].stride(),
      timed.call.tensors()[2].stride())
for attempt in range(3):
    timed.fresh()
    out = timer.flatten_outputs(timed.work())
    check(f"replay {attempt} starts from the trial's bytes", all(torch.equal(a, b) for a, b in zip(out, expected)))
check("the state that forward changes was made anew",
      torch.equal(dict(timed.model.named_buffers())["bn.running_mean"], dict(want.named_buffers())["bn.running_mean"]))

# A task that draws sizes has those of the trial, whatever its own seed gives, and what is said of
# them by plain numbers.
drawing = SOURCE.replace("def get_inputs(): return [torch.randn(5, 4),",
                         "def get_inputs():\n    n = int(torch.randint(6, 30, ()))\n    return [torch.randn(n, 4),")
drawing = drawing.replace("torch.randint(0, 9, (5, 4))", "torch.randint(0, 9, (n, 4))")
other = timer.Timed(dict(asked, source=drawing), timed.given)
check("drawn sizes are the trial's", [t.shape for t in other.call.tensors()] == [t.shape for t in inputs])
check("and so are strides and plain values", other.call.tensors()[2].stride() == inputs[2].stride()
      and type(other.call.args[1]) is tuple and other.call.args[2] is True)
check("and what forward makes of them",
      all(torch.equal(a, b) for a, b in zip(timer.flatten_outputs(other.work()), expected)))

room = mmap.mmap(-1, 4096)
told = timer.write_outputs(out, room, [{"offset": 64, "bytes": 80}, {"offset": 512, "bytes": 96}])
check("what it says of its outputs",
      told == [{"dtype": "float32", "shape": [5, 4]}, {"dtype": "float32", "shape": [4, 6]}], told)
check("outputs lie dense where they were asked for",
      room[64:144] == expected[0].numpy().tobytes() and room[512:608] == expected[1].contiguous().numpy().tobytes())
told = timer.write_outputs(out, room, [{"offset": 1024, "bytes": 4}, {"offset": 2048, "bytes": 96}])
check("an output of another size is not written", room[1024:1104] == bytes(80))

# ---- a candidate's file, run as it is ----

LIVE = """
import torch, torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn, self.linear = nn.BatchNorm1d(n), nn.Linear(n, n, bias=False)
        self.own = nn.Parameter(torch.ones(n))
    def forward(self, x, pair, flag=None):
        if x.sum().item() > 1e30:            # what a tracer cannot follow
            return x
        return self.bn(self.linear(x + self.own)) + pair[0].float(), pair[1].t().contiguous()
"""
job = {"source": LIVE, "init_seed": 42, "init_args": [4], "init_kwargs": {}, "training": True, "trial": trial,
       "state": {n: {"dtype": oracle_pack.dtype_name(t), "shape": list(t.shape)} for n, t in named},
       "inputs": [spec(inputs[0]), {"tuple": [spec(inputs[1]), spec(inputs[2])]}, True], "input_kwargs": {}}
os.makedirs(f"{dir}/live")
out = timer.flatten_outputs(timer.live.Live(job, timed.given, f"{dir}/live", "cpu").work())
check("a candidate's file gets the trial's bytes", all(torch.allclose(a, b, atol=1e-6) for a, b in zip(out, expected)),
      [(a - b).abs().max() for a, b in zip(out, expected)])

# One that calls a parameter otherwise has it by what it holds under the init seed, as on a tape.
torch.manual_seed(42)
drawn = {n: torch.nn.Linear(4, 4, bias=False).weight if n == "linear.weight" else t.new_ones(t.shape) for n, t in named}
digests = {n: hashlib.sha256(t.detach().numpy().tobytes()).hexdigest() for n, t in drawn.items()}
state = {n: dict(entry, sha256=digests[n]) for n, entry in job["state"].items()}
renamed = LIVE.replace("self.bn, self.linear", "self.bn, self.other").replace("self.linear(", "self.other(")
out = timer.flatten_outputs(timer.live.Live(dict(job, source=renamed, state=state), timed.given, f"{dir}/live",
                                            "cpu").work())
check("a renamed parameter gets the trial's bytes", all(torch.allclose(a, b, atol=1e-6) for a, b in zip(out, expected)),
      [(a - b).abs().max() for a, b in zip(out, expected)])
out = timer.flatten_outputs(timer.live.Live(dict(job, source=renamed), timed.given, f"{dir}/live", "cpu").work())
check("one that holds other values keeps them", not torch.allclose(out[0], expected[0], atol=1e-6))

# ---- a job, from a zygote of its own ----

ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    fd = theirs.detach()
    if fd != 3:
        os.dup2(fd, 3)
    os.set_inheritable(3, True)
    os.closerange(4, 64)
    os.environ["TMPDIR"] = dir
    build = os.environ.get("BUILD", "build/release")
    os.execv(sys.executable, [sys.executable, "-I", "worker/zygote.py", "timer", f"{build}/libhone_sandbox.so"])
theirs.close()
os.chmod(dir, 0o777)
hello, _ = wire.recv(ours)
check("the zygote is ready", hello.get("ready"), hello)
for level in ("lsm", "full"):
    data, data_theirs = socket.socketpair()
    status, status_theirs = socket.socketpair()
    wire.send(ours, {"id": 1, "sandbox": level, "limits": {}, "job": {"calibrate": True, "device": "GPU-0"}},
              (data_theirs.fileno(), status_theirs.fileno()))
    data_theirs.close()
    status_theirs.close()
    try:
        answer, _ = wire.recv(data)
    except EOFError:
        answer = {}
    wire.recv(status)
    end, _ = wire.recv(status)
    if not end["entered"]:
        print(f"# level {level} does not work here: {end['text']}")
        continue
    text = answer.get("fault", {}).get("text", "")
    check(f"a job without a GPU says so from its sandbox, level {level}",
          "cuda" in text.lower() or "driver" in text.lower() or "gpu" in text.lower(), answer)
ours.close()
os.waitpid(pid, 0)
check("no folder is left", [n for n in os.listdir(dir) if n.startswith(timer.scratch.prefix)] == [], os.listdir(dir))
done()
