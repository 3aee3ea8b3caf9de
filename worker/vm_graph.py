"""vm_graph: CUDA graphs under `hone vm --cuda-shim`.

What is captured is run once, so that its tensors exist, and recorded: operators of PyTorch and
launches of kernels. As a capture on a GPU computes nothing, memory that was there before has its
old contents back at its end. A replay does the same again, into the same memory.
"""
import ctypes

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import vm_driver

current = None      # the graph that is being captured


def tensors_of(*values):
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


class Recorder(TorchDispatchMode):
    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    @classmethod
    def _should_skip_dynamo(cls):
        return False               # as in vm_cost.Stopwatch

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            self.graph.save(tensors_of(args, kwargs))
        out = func(*args, **kwargs)
        self.graph.made.update(t.untyped_storage().data_ptr() for t in tensors_of(out))
        if not func.is_view:
            self.graph.steps.append(lambda: again(func, args, kwargs, out))
        return out


def again(func, args, kwargs, out):
    for old, new in zip(tensors_of(out), tensors_of(func(*args, **kwargs))):
        if old.data_ptr() != new.data_ptr():
            old.copy_(new)


class CUDAGraph:
    def __init__(self, keep_graph=False):
        self.reset()

    def reset(self):
        self.steps, self.saved, self.made = [], {}, set()

    def save(self, tensors):
        """Contents, before the first write to it, of memory that was there before the capture."""
        for t in tensors:
            storage = t.untyped_storage()
            address = storage.data_ptr()
            if address and address not in self.made and address not in self.saved:
                self.saved[address] = storage, ctypes.string_at(address, storage.nbytes())

    def capture_begin(self, pool=None, capture_error_mode="global"):
        global current
        if current is not None:
            raise RuntimeError("a CUDA graph is being captured already")
        self.reset()
        current, self.recorder = self, Recorder(self)
        self.recorder.__enter__()
        vm_driver.on_launch = self.launched

    def launched(self, kernel, grid, args):
        self.save(tensors_of(args))
        self.steps.append(lambda: kernel.launch(*grid, args))

    def capture_end(self):
        global current
        self.recorder.__exit__(None, None, None)
        current = vm_driver.on_launch = None
        for address, (_, contents) in self.saved.items():
            ctypes.memmove(address, contents, len(contents))
        self.saved = {}

    def replay(self):
        for step in self.steps:
            step()

    def pool(self): return (0, 0)
    def instantiate(self): pass
    def enable_debug_mode(self): pass
    def debug_dump(self, path): pass


class graph:
    """torch.cuda.graph"""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        self.cuda_graph = cuda_graph

    def __enter__(self):
        self.cuda_graph.capture_begin()

    def __exit__(self, *error):
        self.cuda_graph.capture_end()


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """They compute the same without a graph."""
    return callables


def install():
    cuda = torch.cuda
    cuda.CUDAGraph, cuda.graph, cuda.make_graphed_callables = CUDAGraph, graph, make_graphed_callables
    cuda.graphs.CUDAGraph, cuda.graphs.graph, cuda.graphs.make_graphed_callables = (CUDAGraph, graph,
        make_graphed_callables)
    cuda.is_current_stream_capturing = cuda.graphs.is_current_stream_capturing = lambda: current is not None
    cuda.graph_pool_handle = cuda.graphs.graph_pool_handle = lambda: (0, 0)
