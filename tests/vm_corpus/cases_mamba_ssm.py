"""mamba-ssm: its Triton operators beside the references it ships; the package around them wants a
compiled extension."""
# packages: mamba-ssm einops
# build: MAMBA_SKIP_CUDA_BUILD=TRUE MAMBA_FORCE_BUILD=TRUE
import importlib
import torch
import torch.nn.functional as F
from corpus import Case, absent, bare_package, folder_of

absent("selective_scan_cuda", "causal_conv1d", "causal_conv1d_cuda", "flash_attn", "cute", "tilelang")
bare_package("mamba_ssm", folder_of("mamba-ssm", "mamba_ssm"))


def module(name):
    return importlib.import_module(f"mamba_ssm.ops.triton.{name}")


randn = torch.randn
TF32 = 2e-2
norm, gated, update, act = (module("layer_norm"), module("layernorm_gated"), module("selective_state_update"),
                            module("k_activations"))
combined, state, scan, passing, bmm = (module("ssd_combined"), module("ssd_chunk_state"), module("ssd_chunk_scan"),
                                       module("ssd_state_passing"), module("ssd_bmm"))
step, siso, angle, rotary, mimo = (module(f"mamba3.{n}")
                                   for n in ("mamba3_siso_step", "mamba3_siso_combined", "angle_dt",
                                             "mamba3_mimo_rotary_step", "mamba3_mimo_utils"))


def ssd(seq=70):
    """x, dt, A, B, C, D, z of two groups."""
    return (randn(2, seq, 4, 32), F.softplus(randn(2, seq, 4) - 2), -torch.rand(4) - 0.3, randn(2, seq, 2, 16),
            randn(2, seq, 2, 16), randn(4), randn(2, seq, 4, 32))


def recurrence(x, dt, A, B, C, D, z=None):
    B, C = (t.repeat_interleave(x.shape[2] // t.shape[2], 2) for t in (B, C))
    h, out = torch.zeros(x.shape[0], x.shape[2], x.shape[3], B.shape[3]), []
    for t in range(x.shape[1]):
        h = h * torch.exp(dt[:, t] * A)[..., None, None] + (dt[:, t, :, None] * x[:, t])[..., None] * B[:, t, :, None]
        out.append(torch.einsum("bhpn,bhn->bhp", h, C[:, t]) + D[:, None] * x[:, t])
    out = torch.stack(out, 1)
    return out * F.silu(z) if z is not None else out


def ssm_step():
    return (randn(2, 4, 32, 16), randn(2, 4, 32), F.softplus(randn(2, 4, 32)), -torch.rand(4, 32, 16), randn(2, 2, 16),
            randn(2, 2, 16), randn(4, 32), randn(2, 4, 32), randn(4, 32))


def updated(function):
    def call(state, *args):
        out = function(state, *args, dt_softplus=True)
        return out, state
    return call


def rotary_inputs():
    return (randn(2, 4, 3, 64), randn(2, 4, 3, 64), randn(2, 3, 16), randn(2, 3, 16), torch.rand(2, 3), randn(3, 4, 64),
            randn(3, 4, 64))


CASES = [
    Case("layer_norm", lambda x, w, b: norm.layer_norm_fn(x, w, b), lambda x, w, b: F.layer_norm(x, (96,), w, b, 1e-6),
         lambda: (randn(5, 96), randn(96), randn(96)), grad=True),
    Case("layer_norm residual", lambda x, w, b, r: norm.layer_norm_fn(x, w, b, residual=r, prenorm=True),
         lambda x, w, b, r: (F.layer_norm(x + r, (96,), w, b, 1e-6), x + r),
         lambda: (randn(5, 96), randn(96), randn(96), randn(5, 96)), grad=True),
    Case("rms_norm bf16", lambda x, w: norm.rms_norm_fn(x, w, None), lambda x, w: norm.rms_norm_ref(x, w, None,
        upcast=True), lambda: (randn(5, 96).bfloat16(), randn(96)), grad=True),
    Case("layer_norm_linear", lambda x, w, b, lw: norm.layer_norm_linear_fn(x, w, b, lw, None),
         lambda x, w, b, lw: F.layer_norm(x, (96,), w, b, 1e-6) @ lw.T,
         lambda: (randn(5, 96), randn(96), randn(96), randn(40, 96)), grad=True),
    Case("rmsnorm gated", lambda x, w, z: gated.rmsnorm_fn(x, w, None, z=z, norm_before_gate=False),
         lambda x, w, z: gated.rms_norm_ref(x, w, None, z=z, norm_before_gate=False),
         lambda: (randn(6, 96), randn(96), randn(6, 96)), grad=True),
    Case("layernorm gated groups", lambda x, w, b, z: gated.layernorm_fn(x, w, b, z=z, group_size=32), lambda x, w, b,
         z: F.layer_norm(x.view(6, 3, 32), (32,), None, None, 1e-6).view(6, 96) * w * F.silu(z) + b * F.silu(z),
         lambda: (randn(6, 96), randn(96), randn(96), randn(6, 96)), grad=True),
    Case("swiglu", lambda xy: act.SwiGLU.apply(xy), lambda xy: F.silu(xy[..., :100]) * xy[..., 100:],
         lambda: (randn(5, 200),), grad=True),
    Case("selective_state_update", updated(update.selective_state_update), updated(update.selective_state_update_ref),
         ssm_step),
    Case("chunk_scan_combined", lambda x, dt, A, B, C, D, z: combined.mamba_chunk_scan_combined(x, dt, A, B, C, 32, D=D,
        z=z), recurrence, ssd, grad=True, tolerance=TF32),
    Case("chunk_scan_combined bf16", lambda x, dt, A, B, C, D, z: combined.mamba_chunk_scan_combined(x.bfloat16(), dt,
        A, B.bfloat16(), C.bfloat16(), 32, D=D).float(), lambda *a: recurrence(*a[:-1]), ssd, tolerance=3e-2),
    Case("split_conv1d_scan", lambda *a: combined.mamba_chunk_scan_combined(*a[:5], 64, D=a[5], dt_softplus=True),
         lambda x, dt, A, B, C, D, z: recurrence(x, F.softplus(dt), A, B, C, D), lambda: ssd(130), tolerance=TF32),
    Case("chunk_state", lambda B, x, dt, A: state.chunk_state(B, x, dt, A),
         lambda B, x, dt, A: state.chunk_state_ref(B, x, dt, A),
         lambda: (randn(2, 64, 2, 16), randn(2, 64, 4, 32), torch.rand(2, 4, 2, 32),
                  -torch.rand(2, 4, 2, 32).cumsum(-1)), grad=True, tolerance=TF32),
    Case("state_passing", passing.state_passing, passing.state_passing_ref,
         lambda: (randn(2, 5, 4, 48), -torch.rand(2, 4, 5)), grad=True),
    Case("chunk_scan", scan.chunk_scan, scan.chunk_scan_ref,
         lambda: (randn(2, 64, 2, 16), randn(2, 64, 2, 16), randn(2, 64, 4, 32), torch.rand(2, 4, 2, 32), -torch.rand(2,
             4, 2, 32).cumsum(-1), randn(2, 2, 4, 32, 16), randn(4), randn(2, 64, 4, 32)), grad=True, tolerance=TF32),
    Case("bmm_chunk", lambda a, b: bmm._bmm_chunk_fwd(a, b, 32), lambda a, b: torch.einsum("bclk,bcmk->bclm",
        a.view(2, 2, 32, 20), b.view(2, 2, 32, 20)), lambda: (randn(2, 64, 20), randn(2, 64, 20)), tolerance=TF32),
    Case("angle_dt", lambda a, dt: angle.angle_dt_fwd(a, dt), lambda a,
         dt: torch.remainder((torch.tanh(a) * torch.pi * dt.transpose(1, 2)[..., None]).cumsum(1), 2 * torch.pi),
         lambda: (randn(2, 100, 3, 16), torch.rand(2, 3, 100) * 0.1), tolerance=1e-3),
    Case("dacs_segsum", lambda x: mimo.compute_dacs_segsum_triton(x, 16), lambda x: mimo.compute_dacs_segsum_ref(x, 16),
         lambda: (-torch.rand(2, 3, 64),)),
]
