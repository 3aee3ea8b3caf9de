"""Expected values for tests/model and tests/train, from transformers, peft and torch.

usage: model_oracle.py OUT    writes OUT/<case>/{hf/, adapter/, merged/, expected.safetensors,
                              meta.json}; does nothing when OUT is newer than this file's text.

Models are small and odd on purpose: head_dim is not hidden / heads, one has a single key/value
head, vocabularies are odd, sequence lengths straddle multiples of 32. Weights are larger than a
fresh model's, so that attention is far from uniform and every gradient matters. Everything runs in
fp32 with eager attention.
"""
import copy, fcntl, hashlib, json, os, shutil, sys

CASES = {
    "tied": dict(arch="Qwen3", vocab_size=301, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True,
                 targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], r=4, alpha=8),
    "untied": dict(arch="Qwen3", vocab_size=97, hidden_size=40, intermediate_size=72, num_hidden_layers=3,
                   num_attention_heads=6, num_key_value_heads=1, head_dim=16, tie_word_embeddings=False,
                   targets=["q_proj", "v_proj", "down_proj"], r=3, alpha=5),
    "qwen2": dict(arch="Qwen2", vocab_size=101, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                  targets=["o_proj", "gate_proj"], r=2, alpha=2),
    "llama": dict(arch="Llama", vocab_size=89, hidden_size=32, intermediate_size=48,
                  num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
                  tie_word_embeddings=False, targets=["k_proj", "up_proj"], r=2, alpha=4,
                  rope=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                            high_freq_factor=4.0, original_max_position_embeddings=64)),
    "qwen2_untied": dict(arch="Qwen2", vocab_size=83, hidden_size=48, intermediate_size=40, num_hidden_layers=2,
                         num_attention_heads=6, num_key_value_heads=1, tie_word_embeddings=False,
                         targets=["q_proj", "k_proj", "v_proj"], r=3, alpha=4),
    "llama_tied": dict(arch="Llama", vocab_size=71, hidden_size=36, intermediate_size=60, num_hidden_layers=2,
                       num_attention_heads=4, num_key_value_heads=2, head_dim=14, tie_word_embeddings=True,
                       targets=["q_proj", "down_proj"], r=2, alpha=3),
}
LENGTHS = [1, 31, 33, 5, 64]
TEMPERATURE = 0.7
ADAMW = dict(learning_rate=1e-3, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-3, weight_decay=0.1,
             max_grad_norm=0.5, warmup_steps=3, max_steps=12)
STEPS = 10
# Losses of reinforcement learning; small ranges for gspo and a low cap for cispo and delta, so that
# every branch is taken.
RL = {kind: dict(loss_type=kind, epsilon=0.2, epsilon_high=0.28, beta=0.1, delta=0.0, weighted=False)
      for kind in ("grpo", "dr_grpo", "dapo", "bnpo")}
RL["gspo"] = dict(loss_type="gspo", epsilon=0.03, epsilon_high=0.04, beta=0.1, delta=0.0, weighted=False)
RL["cispo"] = dict(loss_type="cispo", epsilon=0.0, epsilon_high=1.1, beta=0.1, delta=0.0, weighted=True)
RL["two_sided"] = dict(loss_type="dapo", epsilon=0.2, epsilon_high=0.28, beta=0.1, delta=1.4, weighted=True)


def build(case):
    import torch, transformers
    kw = {k: v for k, v in case.items() if k not in ("arch", "targets", "r", "alpha", "rope")}
    rope = case.get("rope", dict(rope_type="default", rope_theta=5000.0))
    config = getattr(transformers, case["arch"] + "Config")(max_position_embeddings=256, rope_parameters=rope,
                                                            bos_token_id=None, eos_token_id=3, pad_token_id=None, **kw)
    config._attn_implementation = "eager"
    model = getattr(transformers, case["arch"] + "ForCausalLM")(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1 and "norm" in name:
                p.copy_(1 + 0.3 * torch.randn_like(p))
            elif p.ndim == 1:
                p.copy_(0.3 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (1.3 / p.shape[1] ** 0.5))
    return model.float().eval()


def batch(vocab):
    import torch
    start = [0]
    for n in LENGTHS:
        start.append(start[-1] + n)
    ids = torch.randint(0, vocab, (start[-1],))
    rows = []
    for s in range(len(LENGTHS)):
        for t in range(start[s], start[s + 1] - 1):
            if torch.rand(()) < 0.6:
                rows.append((t, int(ids[t + 1])))
    rows.append((start[-1] - 1, int(ids[0])))   # any target is legal
    return ids, start, rows


def logits_of(model, ids, start):
    import torch
    return torch.cat([model(input_ids=ids[a:b][None]).logits[0] for a, b in zip(start, start[1:])])


def row_logprobs(logits, rows):
    import torch
    at, target = torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])
    lp = torch.log_softmax(logits[at] / TEMPERATURE, -1)
    entropy = -(lp.exp() * lp).sum(-1)
    return lp.gather(1, target[:, None])[:, 0], entropy


ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {   # as peft writes them: accepted
    "names_rslora": dict(target_modules=["q_proj", "v_proj"], use_rslora=True, r=4, lora_alpha=6),
    "paths": dict(target_modules=["self_attn.k_proj", "mlp.up_proj"], r=3, lora_alpha=5),
    "pattern": dict(target_modules=r".*\.(gate|down)_proj", r=2, lora_alpha=4),
    "all_linear": dict(target_modules="all-linear", r=2, lora_alpha=2, init_lora_weights="gaussian"),
    "bf16": dict(target_modules=["o_proj", "q_proj"], r=5, lora_alpha=7),
}
REFUSED_ADAPTERS = {   # refused by the name of the key, or of the tensor that is missing
    "dora": dict(target_modules=["q_proj"], use_dora=True),
    "modules_to_save": dict(target_modules=["q_proj"], modules_to_save=["norm"]),
    "rank_pattern": dict(target_modules=["q_proj", "v_proj"], rank_pattern={"q_proj": 3}),
    "alpha_pattern": dict(target_modules=["q_proj"], alpha_pattern={"q_proj": 3}),
    "layers_to_transform": dict(target_modules=["q_proj"], layers_to_transform=[0]),
    "bias": dict(target_modules=["q_proj"], bias="lora_only"),
    "lora_bias": dict(target_modules=["q_proj"], lora_bias=True),
    "pissa": dict(target_modules=["q_proj"], init_lora_weights="pissa"),
    "one_layer": dict(target_modules=["layers.0.self_attn.q_proj"]), "head": dict(target_modules=["q_proj", "lm_head"]),
}


def write_adapters(model, ids, start, out):
    """Folders out/<name> by peft, and what the adapted model computes. The base weights are left
    alone."""
    import torch
    from peft import LoraConfig, get_peft_model
    logits = {}
    for name, kw in (ADAPTERS | REFUSED_ADAPTERS).items():
        peft = get_peft_model(copy.deepcopy(model),
                              LoraConfig(**(dict(r=2, lora_alpha=2) | kw), task_type="CAUSAL_LM")).eval()
        with torch.no_grad():
            for n, p in peft.named_parameters():
                if "lora_" in n:
                    p.copy_(0.2 * torch.randn_like(p))
                    if name == "bf16":
                        p.data = p.data.bfloat16()
        peft.save_pretrained(f"{out}/{name}")
        if name in ADAPTERS:
            with torch.no_grad():
                logits[f"adapter.{name}.logits"] = logits_of(peft.float(), ids, start)
    return logits


def grpo_rows(rows, start):
    """Old and reference log-probability offsets, advantages and sequence lengths, all random but
    fixed."""
    import torch
    n = len(rows)
    seq = torch.tensor([next(s for s in range(len(LENGTHS)) if start[s] <= at < start[s + 1]) for at, _ in rows])
    return dict(seq=seq, old=0.3 * torch.randn(n), ref=0.3 * torch.randn(n), adv=torch.randn(len(LENGTHS))[seq],
                w=0.5 + torch.rand(n))


def rl_loss(lp, o, g, max_completion):
    """As TRL computes them: clipped surrogate per token (gspo: per sequence), or cispo's weighted
    log-probability, + beta k3, aggregated by loss type."""
    import torch
    adv, weight, sequences = (g["adv"], g["w"] if o["weighted"] else torch.ones_like(lp),
                              [g["seq"] == s for s in g["seq"].unique()])
    rho = torch.exp(lp - g["old_lp"])
    # A sequence's ratio is clipped as a whole, a token's by itself; cispo caps its weight and clips
    # nothing.
    if o["loss_type"] == "gspo":
        of_sequence = torch.stack([torch.exp((lp - g["old_lp"])[s].mean()) for s in sequences])
        first = torch.stack([adv[s][0] for s in sequences])
        surrogate = -torch.min(of_sequence * first,
                               torch.clamp(of_sequence, 1 - o["epsilon"], 1 + o["epsilon_high"]) * first)
        token = torch.zeros_like(lp)
    elif o["loss_type"] == "cispo":
        token = -torch.clamp(rho, max=o["epsilon_high"]).detach() * adv * weight * lp
    else:
        bounded = torch.clamp(rho, max=o["delta"]) if o["delta"] > 0 else rho
        token = -torch.min(bounded * adv, torch.clamp(rho, 1 - o["epsilon"], 1 + o["epsilon_high"]) * adv) * weight
    diff = g["ref_lp"] - lp
    token = token + o["beta"] * (torch.exp(diff) - diff - 1)
    # How tokens become one number: means of sequences, or sums over a fixed length.
    if o["loss_type"] == "grpo":
        return torch.stack([token[s].mean() for s in sequences]).mean()
    if o["loss_type"] == "gspo":
        return surrogate.mean() + torch.stack([token[s].mean() for s in sequences]).mean()
    if o["loss_type"] == "dr_grpo":
        return token.sum() / (len(sequences) * max_completion)
    return token.sum() / len(token)   # dapo, bnpo, cispo: one batch


def named_grads(model, prefix, drop="", insert=""):
    return {prefix + n.replace(drop, insert) if drop else prefix + n: p.grad.clone()
            for n, p in model.named_parameters() if p.grad is not None}


def write_old_spelling(case, model, ids, start, out):
    """The same folder with config.json as transformers 4 wrote it, without what has the same
    default; transformers has to read it as the same model."""
    import torch, transformers
    c = json.load(open(f"{out}/hf/config.json"))
    rope = c.pop("rope_parameters")
    c["torch_dtype"] = c.pop("dtype")
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    c.pop("layer_types", None)
    if c["num_attention_heads"] * c.get("head_dim", 0) == c["hidden_size"]:
        del c["head_dim"]
    if case["arch"] == "Llama" and c["num_key_value_heads"] == c["num_attention_heads"]:
        del c["num_key_value_heads"]
    os.makedirs(f"{out}/old")
    json.dump(c, open(f"{out}/old/config.json", "w"))
    os.symlink("../hf/model.safetensors", f"{out}/old/model.safetensors")
    again = transformers.AutoModelForCausalLM.from_pretrained(f"{out}/old", attn_implementation="eager").eval()
    # The same weights, and logits that differ by no more than the order of sums: PyTorch's products
    # choose kernels by the alignment of memory on some processors.
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), model.state_dict().values(), strict=True))
    with torch.no_grad():
        found, want = logits_of(again, ids, start), logits_of(model, ids, start)
    # The bound of sums in another order along the longest path, as ref_tolerance in
    # tests/model/model_ref.h derives it; of the largest logit.
    K = max(c["intermediate_size"], c["vocab_size"], ids.numel(),
            c["num_attention_heads"] * model.config.head_dim if hasattr(model.config, "head_dim") else c["hidden_size"])
    bound = 2 * 2.0 ** -24 * K ** 0.5 * (7 * c["num_hidden_layers"] + 2)
    difference = ((found - want).abs().max() / want.abs().max()).item()
    assert (difference <= bound), (
        f"the old spelling of config.json is another model: logits differ by {difference:.3g} of the largest, at most "
        f"{bound:.3g} is rounding")


def forward_part(model, ids, start, rows, weights):
    """Forward, loss, every gradient: tensors and numbers for expected.safetensors and meta.json, as
    all parts below return them."""
    logits = logits_of(model, ids, start)
    lp, entropy = row_logprobs(logits, rows)
    loss = -(weights * lp).sum()
    loss.backward()
    e = dict(logits=logits.detach(), logprob=lp.detach(), entropy=entropy.detach()) | named_grads(model, "grad.")
    model.zero_grad()
    return e, {"loss": loss.item()}


def lora_part(case, model, ids, start, rows, weights, out):
    """Forward and gradients of an adapter with B away from zero; also the adapted model and its
    log-probabilities."""
    import torch
    from peft import LoraConfig, get_peft_model
    lora = LoraConfig(r=case["r"], lora_alpha=case["alpha"], lora_dropout=0.05, target_modules=case["targets"],
                      task_type="CAUSAL_LM")
    peft = get_peft_model(copy.deepcopy(model), lora).eval()
    with torch.no_grad():
        for n, p in peft.named_parameters():
            if "lora_B" in n:
                p.copy_(0.2 * torch.randn_like(p))
    peft.save_pretrained(f"{out}/adapter")
    logits = logits_of(peft, ids, start)
    lp, _ = row_logprobs(logits, rows)
    loss = -(weights * lp).sum()
    loss.backward()
    e = {"lora.logits": logits.detach(), "lora.logprob": lp.detach()} | named_grads(peft, "lora.grad.", ".default", "")
    peft.zero_grad()
    return e, {"lora_loss": loss.item()}, peft, lp.detach()


def rl_part(peft, lp, ids, start, rows):
    """GRPO and relatives: the derivative of each row, and the whole way to the adapter's gradients.
    lp: what the rollouts' log-probabilities are made from."""
    g = grpo_rows(rows, start)
    g["old_lp"], g["ref_lp"] = lp + g["old"], lp + g["ref"]
    e = {"rl.old": g["old_lp"], "rl.ref": g["ref_lp"], "rl.adv": g["adv"], "rl.weight": g["w"]}
    losses = {}
    for kind, o in RL.items():
        peft.zero_grad()
        lp, _ = row_logprobs(logits_of(peft, ids, start), rows)
        lp.retain_grad()
        loss = rl_loss(lp, o, g, 50)
        loss.backward()
        losses[kind] = loss.item()
        e["rl.dlp." + kind] = lp.grad.clone()
        e |= named_grads(peft, f"rl.grad.{kind}.", ".default", "")
    peft.zero_grad()
    return e, {"rl_seq": g["seq"].tolist(), "rl_max_completion": 50, "rl_loss": losses}


def adamw_part(model, ids, start, rows, weights):
    """Steps of AdamW on all weights; the model is changed."""
    import torch, transformers
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim == 1]
    opt = torch.optim.AdamW([dict(params=decay, weight_decay=ADAMW["weight_decay"]),
                             dict(params=rest, weight_decay=0.0)], lr=ADAMW["learning_rate"],
                            betas=(ADAMW["adam_beta1"], ADAMW["adam_beta2"]), eps=ADAMW["adam_epsilon"])
    sched = transformers.get_linear_schedule_with_warmup(opt, ADAMW["warmup_steps"], ADAMW["max_steps"])
    meta = {"step_losses": [], "step_norms": [], "step_lrs": []}
    for _ in range(STEPS):
        lp, _ = row_logprobs(logits_of(model, ids, start), rows)
        loss = -(weights * lp).sum()
        loss.backward()
        meta["step_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), ADAMW["max_grad_norm"]).item())
        meta["step_losses"].append(loss.item())
        meta["step_lrs"].append(sched.get_last_lr()[0])
        opt.step(); sched.step(); model.zero_grad()
    return {"final." + n: p.detach().clone() for n, p in model.named_parameters()}, meta


def schedules():
    import torch, transformers
    dummy = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    out = {}
    for kind in ("linear", "cosine", "constant", "constant_with_warmup"):
        s = transformers.get_scheduler(kind, dummy, num_warmup_steps=4, num_training_steps=17)
        out[kind] = [s.lr_lambdas[0](k) for k in range(20)]
    return out


def run_case(name, case, out):
    import torch
    from safetensors.torch import save_file
    torch.manual_seed(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
    model = build(case)
    ids, start, rows = batch(case["vocab_size"])
    weights = torch.rand(len(rows))
    weights = weights / weights.sum()
    model.save_pretrained(f"{out}/hf")
    write_old_spelling(case, model, ids, start, out)
    tensors = write_adapters(model, ids, start, f"{out}/adapters") if name == "tied" else {}
    meta = dict(ids=ids.tolist(), start=start, rows=rows, temperature=TEMPERATURE, weights=weights.tolist(),
                adamw=ADAMW, rl=RL, targets=case["targets"])

    # Each part gives tensors and what is told of them; the reinforcement's needs the adapter's
    # model.
    forward = forward_part(model, ids, start, rows, weights)
    *lora, peft, lp = lora_part(case, model, ids, start, rows, weights, out)
    rl = rl_part(peft, lp, ids, start, rows)
    peft.merge_and_unload().save_pretrained(f"{out}/merged")
    for e, m in (forward, lora, rl, adamw_part(model, ids, start, rows, weights)):
        tensors |= e
        meta |= m
    meta["schedules"] = schedules()
    save_file({k: v.contiguous() for k, v in tensors.items()}, f"{out}/expected.safetensors")
    with open(f"{out}/meta.json", "w") as f:
        json.dump(meta, f)



Q3 = dict(arch="Qwen3", vocab_size=151936, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960)
Q2 = dict(arch="Qwen2", vocab_size=151936, tie_word_embeddings=True)
L3 = dict(arch="Llama", vocab_size=128256, num_key_value_heads=8)


def sized(base, hidden, layers, heads, inter, **kw):
    return (base | dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                        intermediate_size=inter) | kw)


SIZES = {
    "qwen3-0.6b": sized(Q3, 1024, 28, 16, 3072, tie_word_embeddings=True),
    "qwen3-1.7b": sized(Q3, 2048, 28, 16, 6144, tie_word_embeddings=True),
    "qwen3-4b": sized(Q3, 2560, 36, 32, 9728, tie_word_embeddings=True), "qwen3-8b": sized(Q3, 4096, 36, 32, 12288),
    "qwen3-14b": sized(Q3, 5120, 40, 40, 17408),
    "qwen3-32b": sized(Q3, 5120, 64, 64, 25600), "qwen2.5-0.5b": sized(Q2, 896, 24, 14, 4864, num_key_value_heads=2),
    "qwen2.5-1.5b": sized(Q2, 1536, 28, 12, 8960, num_key_value_heads=2),
    "qwen2.5-7b": sized(Q2, 3584, 28, 28, 18944, num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False),
    "qwen2.5-32b": sized(Q2, 5120, 64, 40, 27648, num_key_value_heads=8, vocab_size=152064, tie_word_embeddings=False),
    "llama-2-7b": dict(arch="Llama", vocab_size=32000, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
                       intermediate_size=11008),
    "llama-3.1-8b": sized(L3, 4096, 32, 32, 14336),
    "llama-3.2-1b": sized(L3, 2048, 16, 32, 8192, head_dim=64, tie_word_embeddings=True),
    "llama-3.2-3b": sized(L3, 3072, 28, 24, 8192, head_dim=128, tie_word_embeddings=True),
}


def write_sizes(out):
    """The families' real shapes without weights: config.json of two layers, and what transformers
    counts for all layers (they are alike)."""
    import torch, transformers
    sizes = {}
    for name, kw in SIZES.items():
        kw = dict(kw)
        arch, layers = kw.pop("arch"), kw.pop("num_hidden_layers")
        counts = []
        for n in (1, 2):
            config = getattr(transformers, arch + "Config")(num_hidden_layers=n, **kw)
            with torch.device("meta"):
                model = getattr(transformers, arch + "ForCausalLM")(config)
            counts.append(sum(p.numel() for p in model.parameters()))
        config.architectures, config.num_hidden_layers = [arch + "ForCausalLM"], layers
        sizes[name] = dict(config=json.loads(config.to_json_string()) | dict(layer_types=None),
                           params=counts[0] + (layers - 1) * (counts[1] - counts[0]))
    json.dump(sizes, open(f"{out}/sizes.json", "w"))


def main():
    out = sys.argv[1]
    os.makedirs(os.path.dirname(out), exist_ok=True)
    lock = open(out + ".lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)   # tests run side by side: the first one makes it
    stamp, text = out + "/stamp", hashlib.sha256(open(__file__, "rb").read()).hexdigest()
    if os.path.exists(stamp) and open(stamp).read() == text:
        return
    import torch, transformers
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    shutil.rmtree(out, ignore_errors=True)
    for name, case in CASES.items():
        os.makedirs(f"{out}/{name}")
        run_case(name, case, f"{out}/{name}")
    write_sizes(out)
    open(stamp, "w").write(text)


main()
