"""Logits, log-probabilities, loss, every adapter gradient, the objectives of reinforcement learning
and ten steps of AdamW against transformers and peft, over random models: one like Qwen3-0.6B with
few layers, four layers of Qwen3-8B's shape, and two with wide and odd heads. TAP out.

usage: parity.py PARITY [--device cuda|check|cpu] [--cases NAME,...] [--small] [--plants]
  PARITY     the program of tests/gpu/parity.c     --small: sizes for a CPU     --plants: also
             errors planted on hone's side, each of which must be noticed

Truth is the peer in fp32, over the same bf16 weights. The peer in bf16 says what bf16 costs on this
problem. hone's bounds, in the root mean square relative to the truth's spread:
  one rounding to bf16 errs by at most 2^-8 of the power of two below a value, uniformly up to that;
  over values spread evenly in their logarithm that is u = 0.736 * 2^-8 / sqrt(3) of a value in the
  mean square. A layer rounds 14 times: two norms' rows, qkv, the rotated heads, probabilities,
  attention's rows, the two residual streams, gate and up, act, and four thin products. A logit
  gathers their errors, independent and of the size of their values, and as much again through what
  later layers make of them: sqrt(2 (14 L + 2)) u for L layers. A gradient passes about three times
  as many stages: sqrt(3) times that. Twice these figures are allowed, since stages are not equally
  large. Some gradients are small differences of large terms; how much that costs, the peer's own
  error says: twice it is allowed where it is more. Log-probabilities: a difference of two logits,
  sqrt(2) of a logit's error, in units of the logits' spread. The loss is a weighted sum of them:
  the errors' random sum, four times, and what their squares add. Ten steps: AdamW's epsilon is the
  gradient's own size, so a step is a smooth function of the gradient and errs as the gradients do;
  ten of them, each from other weights and over B and A rounded to bf16: twice a gradient's bound.
  Objectives (GRPO's loss with clipping and KL, Dr. GRPO's, DAPO's with two-sided clipping; in
  torch, over padded matrices and masks, by autograd): a token's factor depends on its
  log-probability now, so an error of that changes the token's share of a gradient by as much,
  relatively: the two bounds are added in their squares. The loss is a sum over tokens whose slopes
  and curvatures the peer knows. Tokens' ratios to the old policy lie well inside or outside of the
  clips, so that no error of bf16 moves one across.
An fp32 device (cpu) has 2^-24 in place of 2^-8, and fp32 sums of the peer's own on top: 16 times
the bound.
"""
import argparse, concurrent.futures, json, math, os, shutil, subprocess, sys, tempfile

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {
    "0.6b": dict(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=4,
                 num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True),
    "8b": dict(vocab_size=32768, hidden_size=4096, intermediate_size=12288, num_hidden_layers=4, num_attention_heads=32,
               num_key_value_heads=8, head_dim=128, tie_word_embeddings=False),
    # Falcon3's heads, and H2O-Danube3's; a group that a decode step walks in shares
    "wide": dict(vocab_size=8192, hidden_size=1024, intermediate_size=2304, num_hidden_layers=3, num_attention_heads=6,
                 num_key_value_heads=2, head_dim=256, tie_word_embeddings=False),
    "odd": dict(vocab_size=8191, hidden_size=960, intermediate_size=2568, num_hidden_layers=3, num_attention_heads=12,
                num_key_value_heads=1, head_dim=120, tie_word_embeddings=True),
}
SMALL = {
    "0.6b": dict(vocab_size=601, hidden_size=64, intermediate_size=192, num_hidden_layers=4, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=32, tie_word_embeddings=True),
    "8b": dict(vocab_size=301, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
               num_key_value_heads=1, head_dim=32, tie_word_embeddings=False),
    "wide": dict(vocab_size=299, hidden_size=64, intermediate_size=192, num_hidden_layers=3, num_attention_heads=3,
                 num_key_value_heads=1, head_dim=64, tie_word_embeddings=False),
    "odd": dict(vocab_size=299, hidden_size=72, intermediate_size=200, num_hidden_layers=3, num_attention_heads=12,
                num_key_value_heads=1, head_dim=24, tie_word_embeddings=True),
}
LENGTHS = [1, 37, 64, 130, 5, 311]
STEPS, RANK, ALPHA = 10, 16, 32
OBJECTIVES = [
    dict(loss_type="grpo", epsilon=0.2, epsilon_high=0.28, beta=0.3, delta=0, max_completion_length=256),
    dict(loss_type="dr_grpo", epsilon=0.2, epsilon_high=0.2, beta=0, delta=0, max_completion_length=256),
    dict(loss_type="dapo", epsilon=0.2, epsilon_high=0.28, beta=0, delta=1.6, max_completion_length=256),
]
RATIOS = [-0.9, 0, 0, 0.9]    # logarithms of the tokens' ratios to the old policy, around which they lie
PREFIX = "base_model.model."
count = failed = 0


def tell(name, ok, detail):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}: {detail}", flush=True)


# ---- the problem ----

def model_make(torch, transformers, shape, device):
    config = transformers.Qwen3Config(max_position_embeddings=1024,
                                      rope_parameters=dict(rope_type="default", rope_theta=1e6), bos_token_id=None,
                                      eos_token_id=3, pad_token_id=None, rms_norm_eps=1e-6, **shape)
    config._attn_implementation = "eager"
    with torch.device(device):
        model = transformers.Qwen3ForCausalLM(config)
    # larger than fresh weights: attention is far from uniform, every gradient matters; values that
    # bf16 has
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((1 + 0.3 * torch.randn_like(p) if p.ndim == 1
                     else torch.randn_like(p) * (1.3 / p.shape[1] ** 0.5)).bfloat16())
    return model.eval()


def adapter_make(torch, peft, model):
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0,
                                                       target_modules=TARGETS, bias="none", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_((torch.randn_like(p) * (1 / p.shape[1] ** 0.5 if "lora_A" in name
                                                else 0.25 / RANK ** 0.5)).bfloat16())
    return model


def problem_make(torch, vocab):
    start, rows = [0], []
    for n in LENGTHS:
        start.append(start[-1] + n)
    ids = torch.randint(0, vocab, (start[-1],)).tolist()
    for a, b in zip(start, start[1:]):
        rows += [(t, ids[t + 1], float(torch.randn(()))) for t in range(a, b - 1) if torch.rand(()) < 0.7]
    rows = [(t, target, w / len(rows)) for t, target, w in rows]    # weights of both signs, as advantages are
    # completions: what lies behind the first third of each sequence; the shortest has none
    tokens = [(t, ids[t + 1], s) for s, (a, b) in enumerate(zip(start, start[1:]))
              for t in range(a + (b - a) // 3, b - 1)]
    advantages = [float(x) for x in torch.randn(len(LENGTHS)).tolist()]
    return dict(ids=ids, start=start, rows=rows, steps=STEPS, tokens=tokens, advantages=advantages,
                objectives=OBJECTIVES)


# ---- the peer ----

def policies_make(torch, problem, logprob):
    """Old and reference log-probabilities of the tokens, near the truth's own."""
    n = len(problem["tokens"])
    ratio = torch.tensor(RATIOS)[torch.randint(0, len(RATIOS), (n,))] + 0.1 * (torch.rand(n) - 0.5)
    old, ref = logprob.cpu() - ratio, logprob.cpu() + torch.randn(n)
    problem["tokens"] = [(*t[:3], a, b) for t, a, b in zip(problem["tokens"], old.tolist(), ref.tolist())]


def objective_value(torch, problem, o, logprob):
    """An objective of reinforcement learning over (sequences, length) and a mask, as trainers have
    it."""
    S, device = len(problem["advantages"]), logprob.device
    of = torch.tensor([t[2] for t in problem["tokens"]], device=device)
    lengths = torch.bincount(of, minlength=S)
    mask = torch.arange(int(lengths.max()), device=device)[None] < lengths[:, None]

    def padded(values):
        return torch.zeros(mask.shape, dtype=torch.float64, device=device).masked_scatter(mask, values.double())

    now = padded(logprob)
    old, ref = (padded(torch.tensor([t[i] for t in problem["tokens"]], device=device)) for i in (3, 4))
    A = torch.tensor(problem["advantages"], dtype=torch.float64, device=device)[:, None]
    ratio = (now - old).exp()
    unclipped = ratio.clamp(max=o["delta"]) if o["delta"] else ratio
    term = -torch.minimum(unclipped * A, ratio.clamp(1 - o["epsilon"], 1 + o["epsilon_high"]) * A)
    if o["beta"]:
        term = term + o["beta"] * ((ref - now).exp() - (ref - now) - 1)
    term = term * mask
    if o["loss_type"] == "grpo":
        return (term.sum(1) / mask.sum(1).clamp(min=1)).mean()
    return term.sum() / (mask.sum() if o["loss_type"] == "dapo" else S * o["max_completion_length"])


def objectives_run(torch, problem, forward, params, o):
    for k, objective in enumerate(problem["objectives"]):
        logprob = forward([t[0] for t in problem["tokens"]], [t[1] for t in problem["tokens"]])
        if len(problem["tokens"][0]) == 3:
            policies_make(torch, problem, logprob.detach())
        loss = objective_value(torch, problem, objective, logprob)
        # what an error of the log-probabilities does to the loss: its slopes and curvatures
        flat = logprob.detach().double().requires_grad_()
        slope, = torch.autograd.grad(objective_value(torch, problem, objective, flat), flat, create_graph=True)
        curve, = torch.autograd.grad(slope.sum(), flat)
        o[f"slope.{k}"], o[f"curve.{k}"] = slope.detach().square().sum().sqrt().item(), curve.abs().sum().item()
        loss.backward()
        o[f"objective.{k}"] = loss.item()
        for n, p in params.items():
            o[f"objective.{k}.{n}"] = p.grad.float().flatten().cpu().clone()
            p.grad = None


def peer_run(torch, model, problem):
    """The same outputs as parity.c's, by transformers, peft and torch."""
    device = next(model.parameters()).device
    at, target = (torch.tensor([r[i] for r in problem["rows"]], device=device) for i in (0, 1))
    weights = torch.tensor([r[2] for r in problem["rows"]], dtype=torch.float64, device=device)
    ids = torch.tensor(problem["ids"], device=device)
    params = {n.replace(".default", ""): p for n, p in model.named_parameters() if "lora_" in n}
    begin = {n: p.detach().clone() for n, p in params.items()}
    o, adamw = {"loss": [], "norm": []}, problem.get("adamw")

    def logits_of(at):
        return torch.cat([model(input_ids=ids[a:b][None]).logits[0]
                          for a, b in zip(problem["start"], problem["start"][1:])])[at].float()

    def logprob_of(logits, target):
        return torch.log_softmax(logits, -1).gather(1, target[:, None])[:, 0]

    def forward():
        logits = logits_of(at)
        logprob = logprob_of(logits, target)
        return logits, logprob, -(weights * logprob.double()).sum()

    # Objectives first, at the weights as they are; then ten steps.
    objectives_run(torch, problem, lambda *w: logprob_of(logits_of(torch.tensor(w[0], device=device)),
                                                         torch.tensor(w[1], device=device)), params, o)
    logits, logprob, loss = forward()
    o["logits"], o["logprob"] = logits.detach().cpu(), logprob.detach().cpu()
    optimizer = None
    for step in range(STEPS):
        if step:
            loss = forward()[2]
        loss.backward()
        if not step:
            for n, p in params.items():
                o["grad." + n] = p.grad.float().flatten().cpu().clone()
            if not adamw:    # an epsilon of the gradient's own size
                total, n = (sum(p.grad.double().square().sum().item() for p in params.values()),
                            sum(p.numel() for p in params.values()))
                adamw = problem["adamw"] = dict(lr=2e-3, beta1=0.9, beta2=0.95, eps=math.sqrt(total / n),
                                                weight_decay=0.1, max_grad_norm=0.4 * math.sqrt(total))
            optimizer = torch.optim.AdamW(params.values(), lr=adamw["lr"], betas=(adamw["beta1"], adamw["beta2"]),
                                          eps=adamw["eps"], weight_decay=adamw["weight_decay"])
        o["loss"].append(loss.item())
        o["norm"].append(torch.nn.utils.clip_grad_norm_(params.values(), adamw["max_grad_norm"]).item())
        optimizer.step()
        optimizer.zero_grad()
    # The adapter is put back: the next problem begins where this one did.
    for n, p in params.items():
        o["step." + n] = p.detach().float().flatten().cpu().clone()
    with torch.no_grad():
        for n, p in params.items():
            p.copy_(begin[n])
    return o


# ---- comparing ----

def relative(got, want, spread):
    return math.sqrt((got.double() - want.double()).square().mean().item()) / spread


def rms(x):
    return math.sqrt(x.double().square().mean().item())


def compare(torch, got, truth, peer, begin, layers, unit):
    """[(name, ok, detail)] of one run of hone's."""
    u, found = 0.736 * unit / math.sqrt(3), []
    logit = 2 * math.sqrt(2 * (14 * layers + 2)) * u
    spread = truth["logits"].double().std(dim=-1).mean().item()
    e, p = (relative(x["logits"], truth["logits"], spread) for x in (got, peer))
    found.append(("logits", e <= max(logit, 1.5 * p),
                  f"error {e:.2e} of their spread, allowed {max(logit, 1.5 * p):.2e}, the peer's in bf16 {p:.2e}"))
    e, p = (relative(x["logprob"], truth["logprob"], spread) for x in (got, peer))
    bound = max(math.sqrt(2) * logit, 1.5 * p)
    found.append(("log-probabilities", e <= bound,
                  f"error {e:.2e} of the spread, allowed {bound:.2e}, the peer's {p:.2e}"))
    weights = torch.tensor([r[2] for r in truth["rows"]], dtype=torch.float64)
    allowed = (4 * bound * spread * weights.square().sum().sqrt().item()
               + (bound * spread) ** 2 * weights.abs().sum().item())
    e, p = (abs(x["loss"][0] - truth["loss"][0]) for x in (got, peer))
    found.append(("loss", e <= allowed,
                  f"{got['loss'][0]:.6f}, truth {truth['loss'][0]:.6f}, error {e:.1e}, allowed {allowed:.1e}, the "
                  f"peer's {p:.1e}"))
    gradient = math.sqrt(3) * logit
    for kind, factor in (("grad.", 1), ("step.", 2)):
        bad, errors = [], []
        for name in truth:
            if not name.startswith(kind):
                continue
            # of weights: how far they have gone, not where they are
            base = begin[name[5:]] if kind == "step." else torch.zeros(())
            want = truth[name] - base
            e, p = (relative(x[name] - base, want, rms(want)) for x in (got, peer))
            allowed = max(factor * gradient, 2 * p)
            errors.append((e / allowed, e, p, allowed, name))
            bad += [] if e <= allowed else [f"{name[5:]} {e:.2e}, allowed {allowed:.2e}"]
        errors.sort()
        _, e, p, allowed, name = errors[-1]
        what = "gradients of all adapter tensors" if kind == "grad." else f"adapter after {STEPS} steps"
        found.append((what, not bad and len(errors) == 14 * layers,
                      f"{len(errors)} tensors, nearest to its bound {name[5:].removeprefix(PREFIX)}: error {e:.2e}, "
                      f"allowed {allowed:.2e}, the peer's {p:.2e}"
                      + "".join(f"; {b}" for b in bad[:4])))
    for k, objective in enumerate(OBJECTIVES):
        found += compare_objective(got, truth, peer, objective["loss_type"], f"objective.{k}", k, bound * spread,
                                   gradient)
    e = max(abs(a - b) / b for a, b in zip(got["norm"], truth["norm"]))
    p = max(abs(a - b) / b for a, b in zip(peer["norm"], truth["norm"]))
    found.append(("norms of the gradients", e <= max(gradient, 2 * p),
                  f"largest error {e:.2e}, allowed {max(gradient, 2 * p):.2e}, the peer's {p:.2e}"))
    scale = max(abs(x) for x in truth["loss"])
    e, p = (max(abs(a - b) for a, b in zip(x["loss"], truth["loss"])) / scale for x in (got, peer))
    bound = allowed_losses(allowed=found[2][2], scale=scale, steps=2 * gradient, peer=p)
    found.append(("losses of the steps", e <= bound,
                  f"largest error {e:.2e} of the largest loss, allowed {bound:.2e}, the peer's {p:.2e}"))
    return found


def compare_objective(got, truth, peer, name, key, k, token, gradient):
    """[(name, ok, detail)]; token: a log-probability's bound."""
    allowed = 4 * token * truth[f"slope.{k}"] + token ** 2 * truth[f"curve.{k}"]
    e, p = (abs(x[key] - truth[key]) for x in (got, peer))
    found = [(f"{name}'s loss", e <= allowed,
              f"{got[key]:.6f}, truth {truth[key]:.6f}, error {e:.1e}, allowed {allowed:.1e}, the peer's {p:.1e}")]
    bound, errors = math.hypot(gradient, token), []
    for n in truth:
        if n.startswith(key + "."):
            e, p = (relative(x[n], truth[n], rms(truth[n])) for x in (got, peer))
            errors.append((e / max(bound, 2 * p), e, max(bound, 2 * p), p, n))
    worst, e, allowed, p, n = max(errors)
    return (found + [
        (f"{name}'s gradients", worst <= 1,
         f"{len(errors)} tensors, nearest to its bound {n.removeprefix(key + '.' + PREFIX)}: error {e:.2e}, "
         f"allowed {allowed:.2e}, the peer's {p:.2e}")])


def allowed_losses(allowed, scale, steps, peer):
    """The loss's own bound, and what weights that err by `steps` of their way do to a loss that
    fell along it; twice the peer's where that is more."""
    own = float(allowed.split("allowed ")[1].split(",")[0])
    return max(own / scale + steps, 2 * peer)


# ---- errors planted in what hone is given ----

# The files are links to the sound problem's: what is changed is written anew.

def edit_json(path, change):
    j = json.load(open(path))
    change(j)
    os.remove(path)
    json.dump(j, open(path, "w"))


def edit_tensor(path, name, change):
    from safetensors.torch import load_file, save_file
    tensors = load_file(path)
    tensors[name] = change(tensors[name]).contiguous()
    os.remove(path)
    save_file(tensors, path, metadata={"format": "pt"})


def edit_objective(folder, k, **change):
    edit_json(f"{folder}/problem.json", lambda j: j["objectives"][k].update(change))


def rope(j):
    for o in (j, j.get("rope_parameters") or {}):
        if "rope_theta" in o:
            o["rope_theta"] *= 1.5


PLANTS = {
    "the adapter's scaling is 10 % more": lambda d: edit_json(f"{d}/adapter/adapter_config.json",
                                                              lambda j: j.update(lora_alpha=ALPHA * 1.1)),
    "rotary angles of another base": lambda d: edit_json(f"{d}/model/config.json", rope),
    "one norm of the heads is 30 % more":
        lambda d: edit_tensor(f"{d}/model/model.safetensors", "model.layers.2.self_attn.q_norm.weight",
                              lambda t: t * 1.3),
    "one B of the adapter is 0":
        lambda d: edit_tensor(f"{d}/adapter/adapter_model.safetensors",
                              PREFIX + "model.layers.1.self_attn.k_proj.lora_B.weight", lambda t: t * 0),
    "two sequences see each other": lambda d: edit_json(f"{d}/problem.json", lambda j: j["start"].pop(3)),
    "the rate is 30 % more": lambda d: edit_json(f"{d}/problem.json",
                                                 lambda j: j["adamw"].update(lr=j["adamw"]["lr"] * 1.3)),
    "AdamW's epsilon is three times as large":
        lambda d: edit_json(f"{d}/problem.json", lambda j: j["adamw"].update(eps=j["adamw"]["eps"] * 3)),
    "gradients are not clipped": lambda d: edit_json(f"{d}/problem.json", lambda j: j["adamw"].update(max_grad_norm=0)),
    "the ratio is not clipped above": lambda d: edit_objective(d, 0, epsilon_high=9),
    "the KL weighs a third": lambda d: edit_objective(d, 0, beta=0.1),
    "GRPO's mean is over tokens": lambda d: edit_objective(d, 0, loss_type="dapo"),
    "the ratio is not bounded above": lambda d: edit_objective(d, 2, delta=0),
    "the longest completion counts as half": lambda d: edit_objective(d, 1, max_completion_length=128),
    "old and reference policy are exchanged":
        lambda d: edit_json(f"{d}/problem.json",
                            lambda j: j.update(tokens=[[*t[:3], t[4], t[3]] for t in j["tokens"]])),
    "one advantage has the other sign":
        lambda d: edit_json(f"{d}/problem.json", lambda j: j["advantages"].__setitem__(3, -j["advantages"][3])),
    "one weight of the loss has the other sign":
        lambda d: edit_json(
            f"{d}/problem.json",
            lambda j: j["rows"][max(range(len(j["rows"])), key=lambda i: abs(j["rows"][i][2]))].__setitem__(2,
                -max((r[2] for r in j["rows"]), key=abs))),
}


# ---- running ----

def hone_run(torch, o, folder):
    from safetensors.torch import load_file
    p = subprocess.run([o.parity, o.device, folder, f"{folder}/out.safetensors"], capture_output=True, text=True)
    if p.returncode:
        return None, p.stderr.strip()
    out = load_file(f"{folder}/out.safetensors")
    os.remove(f"{folder}/out.safetensors")
    lists = {n: t.flatten().tolist() if n in ("loss", "norm") else t if n == "logits" else t.flatten()
             for n, t in out.items()}
    return {n: t.item() if n.count(".") == 1 and n.startswith("objective.") else t for n, t in lists.items()}, ""


def case_run(torch, transformers, peft, o, name, shape, folder):
    # small problems are the same ones on every machine
    where = "cuda" if o.device.startswith("cuda") and not o.small else "cpu"
    torch.manual_seed(7)
    model = model_make(torch, transformers, shape, where)
    problem = problem_make(torch, shape["vocab_size"])
    # tensor by tensor: model.bfloat16() would round the rotary frequencies as well, and the truth
    # would be another model's
    tensors = {n: t.bfloat16()
               for n, t in model.state_dict().items() if not (shape["tie_word_embeddings"] and n == "lm_head.weight")}
    model.save_pretrained(f"{folder}/model", state_dict=tensors)
    model = adapter_make(torch, peft, model)
    model.save_pretrained(f"{folder}/adapter")
    begin = {n.replace(".default", ""): p.detach().float().flatten().cpu().clone()
             for n, p in model.named_parameters() if "lora_" in n}
    # fp32 products in full precision: the truth
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    truth = peer_run(torch, model, problem)
    truth["rows"] = problem["rows"]
    for n, p in model.named_parameters():    # the base in bf16, the adapter's masters in fp32: as peft trains
        if "lora_" not in n:
            p.data = p.data.bfloat16()
    peer = peer_run(torch, model, problem)
    del model
    json.dump(problem, open(f"{folder}/problem.json", "w"))
    got, why = hone_run(torch, o, folder)
    if not got:
        return tell(f"{name}: hone runs", False, why)
    unit = 2 ** -24 * 16 if o.device == "cpu" else 2 ** -8
    reference = truth if o.device == "cpu" else peer
    for what, ok, detail in compare(torch, got, truth, reference, begin, shape["num_hidden_layers"], unit):
        tell(f"{name}: {what}", ok, detail)
    if not o.plants or name != "0.6b":
        return

    def plant_run(plant):
        other = tempfile.mkdtemp(dir=os.path.dirname(folder))
        shutil.copytree(folder, other, copy_function=os.link, dirs_exist_ok=True)
        PLANTS[plant](other)
        got, why = hone_run(torch, o, other)
        shutil.rmtree(other)
        return ([what for what, ok, _ in compare(torch, got, truth, reference, begin, shape["num_hidden_layers"],
                                                 unit) if not ok] if got else []), why

    # a few beside each other: each loads a model for a moment's work
    with concurrent.futures.ThreadPoolExecutor(max(1, min(3, (os.cpu_count() or 1) // 2))) as pool:
        for plant, (noticed, why) in zip(PLANTS, pool.map(plant_run, PLANTS)):
            tell(f"planted: {plant}", bool(noticed),
                 "noticed by " + ", ".join(noticed) if noticed else f"not noticed {why}")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("parity")
    a.add_argument("--device", default="cuda")
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--small", action="store_true")
    a.add_argument("--plants", action="store_true")
    o = a.parse_args()
    import peft, torch, transformers
    transformers.logging.set_verbosity_error()
    if o.small:
        torch.set_num_threads(1)
    print(f"# torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}")
    for name in o.cases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            case_run(torch, transformers, peft, o, name, (SMALL if o.small else CASES)[name], f"{folder}/problem")
    print(f"1..{count}")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
