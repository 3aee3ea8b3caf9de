"""timeout: 300
The compile worker: TTIR of honest kernels becomes machine code for sm_90 with its resources; what
does not compile is a fault; nothing stays on disk."""
import json
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults
import zygote_client as client

KERNELS = ("relu_odd_size", "softmax_rows", "layernorm_affine", "matmul_fp16", "atomic_row_histogram", "argmax_int64",
           "gelu_tanh_chain", "device_tensor_descriptor", "device_function_noinline")
BIG = '''
@triton.jit
def big(a, b, c, K, B: tl.constexpr, BK: tl.constexpr):
    i = tl.arange(0, B)
    k = tl.arange(0, BK)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, BK):
        acc += tl.dot(tl.load(a + i[:, None] * K + (k0 + k)[None, :]), tl.load(b + (k0 + k)[:, None] * B + i[None, :]))
    tl.store(c + i[:, None] * B + i[None, :], acc)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty((256, 256), device=a.device)
        big[(1,)](a, b, c, a.shape[1], B=256, BK=128, num_stages=6, num_warps=8)
        return c
'''


def job_of(kernel, **more):
    return dict({name: value for name, value in kernel.items() if name not in ("name", "configs")}, arch=90,
                shared_bytes=232448, **more)


def kernels_of(tracer, name):
    folder = next(f for f in client.KNOWN_GOOD if f.endswith(f"/{name}/"))
    with open(folder + "candidate.py") as f:
        result = tracer.result(client.task_job(folder + "task.py", f.read()))
    return json.loads(result["tape"])["kernels"]


def test_kernels(tap, tracer, compiler):
    for name in KERNELS:
        for kernel in kernels_of(tracer, name):
            result = compiler.result(job_of(kernel))
            ok = (result.get("cubin_bytes", 0) > 500 and 4 <= result["registers"] <= 255 and result["spills"] == 0
                  and result["name"] == kernel["name"])
            tap.check(ok, f"{name}: {kernel['name']} compiles", result)


def test_wishes(tap, tracer, compiler):
    kernel = kernels_of(tracer, "matmul_fp16")[0]
    data, status = compiler.start(job_of(kernel, want_cubin=True, want_ttgir=True, want_ptx=True))
    payload, fds = client.wire.recv(data)
    with os.fdopen(fds[0], "rb") as f:
        cubin = f.read()
    data.close()
    status.close()
    tap.check(cubin[:4] == b"\x7fELF" and len(cubin) == payload["cubin_bytes"], "the cubin comes in a memory file",
              payload)
    tap.check("ttg." in payload["ttgir"] and ".entry" in payload["ptx"] and "llir" not in payload,
              "texts come when asked for")
    tap.check(payload["shared_bytes"] > 0, "shared memory is counted", payload["shared_bytes"])
    a, b = compiler.result(job_of(kernel)), compiler.result(job_of(kernel))
    a.pop("status"), b.pop("status")
    tap.check(a == b, "the same input gives the same answer", f"{a} {b}")


def test_standing_for(tap, tracer, compiler):
    """A newer device for an older card: the card's figures and limits, a binary for the device."""
    def made(**more):
        data, status = compiler.start(dict(job_of(kernel, want_cubin=True, want_ptx=True), arch=80, **more))
        payload, fds = client.wire.recv(data)
        data.close(), status.close()
        with os.fdopen(fds[0], "rb") as f:
            # e_flags of a 64-bit ELF file: what it runs on is one of its bytes, what its PTX was
            # made for another
            flags = struct.unpack("<I", f.read(52)[48:])[0]
        return payload, {flags >> s & 255 for s in (0, 8, 16)}
    kernel = kernels_of(tracer, "matmul_fp16")[0]
    (own, of_own), (stood, of_stood) = made(), made(run_arch=90)
    tap.check(".target sm_80" in own["ptx"] and own["ptx"] == stood["ptx"] and own["registers"] == stood["registers"],
              "the card's code and figures", stood)
    tap.check(80 in of_own and 90 not in of_own and 90 in of_stood, "a binary for the device", f"{of_own} {of_stood}")


def test_faults(tap, tracer, compiler):
    kernel = kernels_of(tracer, "relu_odd_size")[0]
    bad = dict(kernel, ttir=kernel["ttir"].replace("arith.muli", "arith.nonsense"))
    a, b = compiler.result(job_of(bad)).get("fault", {}), compiler.result(job_of(bad)).get("fault", {})
    tap.check(a.get("code") == "compile-error" and "nonsense" in a["text"], "an unknown operation is a fault", a)
    tap.check(a == b and "/tmp" not in a["text"], "its text is the same each time, without a folder's name", a)
    for name, text in (("no text", ""), ("no IR", "hello"), ("no function", "module {}"),
                       ("half a kernel", kernel["ttir"][: len(kernel["ttir"]) // 2])):
        result = compiler.result(job_of(dict(kernel, ttir=text)))
        tap.check(result.get("fault", {}).get("code") == "compile-error" or result["status"]["status"] != 0,
                  f"a fault or a crash of the job alone: {name}", result)
    half = {"tensor": {"dtype": "float16", "shape": [256, 256], "stride": [256, 1]}}
    traced = tracer.result({"source": faults.HEAD + BIG, "init_args": [], "state": {}, "inputs": [half, half]})
    result = compiler.result(job_of(json.loads(traced["tape"])["kernels"][0]))
    tap.check(result.get("fault", {}).get("code") == "out-of-resources" and "shared memory" in result["fault"]["text"],
              "too much shared memory is a fault", result)
    result = compiler.result(dict(job_of(kernel), num_warps=3))
    tap.check(result.get("fault", {}).get("code") == "compile-error", "three warps are a fault", result)


def main():
    tap = client.Tap()
    tracer, compiler = client.Zygote("tracer"), client.Zygote("compile")
    scratch = os.path.join(tempfile.gettempdir(), f"hone-compile-{compiler.process.pid}")
    test_kernels(tap, tracer, compiler)
    test_wishes(tap, tracer, compiler)
    test_standing_for(tap, tracer, compiler)
    test_faults(tap, tracer, compiler)
    data, status = compiler.start(job_of({"ttir": "module {}", "num_warps": 4, "num_stages": 1, "num_ctas": 1}))
    status.close()   # killed, at whatever point it is
    client.drain(data)
    data.close()
    compiler.result(job_of({"ttir": "", "num_warps": 4, "num_stages": 1, "num_ctas": 1}))
    tap.check(os.path.isdir(scratch) and (not os.access(scratch, os.R_OK) or not os.listdir(scratch)),
              "no job leaves a folder, killed ones included", os.listdir(scratch))
    tap.check(compiler.close() == 0 and not os.path.exists(scratch), "nor does the zygote")
    tap.check(tracer.close() == 0, "the tracer's zygote ends")
    return tap.done()


sys.exit(main())
