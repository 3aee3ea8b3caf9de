"""torch-optimi: optimizers whose step is a Triton kernel, beside the same library's PyTorch
steps."""
# packages: torch-optimi
import torch
from corpus import Case
import optimi


def steps(make, **options):
    def call(triton):
        def run(p, *grads):
            p = torch.nn.Parameter(p.clone())
            opt = make([p], lr=1e-2, triton=triton, **({} if triton else {"foreach": False}), **options)
            for g in grads:
                p.grad = g.clone()
                opt.step()
            return p.detach()
        return run
    return call


def case(name, make, dtype=torch.float32, **options):
    run = steps(make, **options)
    return Case(f"{name} {str(dtype)[6:]}", run(True), run(False),
                lambda: (torch.randn(7, 61).to(dtype), *(torch.randn(7, 61).to(dtype) for _ in range(3))))


CASES = [case(n, getattr(optimi, n))
         for n in ("Adam", "AdamW", "Adan", "Lion", "RAdam", "Ranger", "SGD", "StableAdamW")]
CASES += [case("AdamW", optimi.AdamW, torch.bfloat16, kahan_sum=True),
          case("SGD momentum", optimi.SGD, momentum=0.9, weight_decay=0.1), case("Lion", optimi.Lion, decouple_lr=True)]
