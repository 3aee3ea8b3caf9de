import torch
import torch.nn as nn
import triton
import triton.language as tl


def prune(configs, named_args, **kwargs):
    n = named_args["n"]
    kept = [c for c in configs if c.kwargs["BLOCK"] <= max(128, triton.next_power_of_2(n))]
    return kept or configs[:1]


def perf_model(BLOCK, n, num_warps, num_stages, **kw):
    return triton.cdiv(n, BLOCK) * (1 + 1 / num_warps)


def pre(args, reset_only=False):
    pass


def post(args, exception):
    pass


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w, num_stages=1, pre_hook=None) for b in (128, 256, 512) for w in (2, 4)],
    key=["n"],
    prune_configs_by={"early_config_prune": prune, "perf_model": perf_model, "top_k": 3},
    restore_value=["out_ptr"],
    pre_hook=pre,
    post_hook=post,
    warmup=5,
    rep=10,
    use_cuda_graph=False,
    cache_results=False,
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def kern(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + i)
        tl.store(out_ptr + i, tl.maximum(x, 0.0) * 2.0 + 1.0)
    else:
        x = tl.load(x_ptr + i, mask=i < n, eviction_policy="evict_first")
        tl.store(out_ptr + i, tl.maximum(x, 0.0) * 2.0 + 1.0, mask=i < n, cache_modifier=".cs")


def run(x):
    out = torch.empty_like(x)
    n = x.numel()
    kern[lambda m: (triton.cdiv(n, m["BLOCK"]),)](x, out, n)
    return out



class ModelNew(nn.Module):
    def forward(self, x):
        return run(x)
