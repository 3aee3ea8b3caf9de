"""llama.cpp beside `hone bench cpu --model`: generation from the same weights as fp32, with the
same batch and number of threads. Prints one JSON object.

    hone bench cpu --model MODEL --python VENV/bin/python --peer bench/peers/llama_peer.py

VENV has llama-cpp-python and gguf. In MODEL lies the GGUF file that it was imported from (or a link
to it); what is packed in it becomes fp32 in a temporary copy. Tokens are drawn from the softmax, as
hone does; sequences of a batch are decoded together.
"""
import ctypes
import glob
import sys
import tempfile

import llama_cpp as llama
import numpy as np
import peer
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize

o = peer.options(__doc__)
rng = np.random.default_rng(0)


def write_fp32(source, path):
    reader = GGUFReader(source)
    writer = GGUFWriter(path, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if (not field.name.startswith("GGUF.")
                and field.name not in ("general.architecture", "general.file_type", "general.quantization_version")):
            kind = field.types[0]
            writer.add_key_value(field.name, field.contents(), kind,
                                 field.types[1] if kind == GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        data = t.data if t.tensor_type == GGMLQuantizationType.F32 else dequantize(t.data, t.tensor_type)
        writer.add_tensor(t.name, np.ascontiguousarray(data, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def draw(logits):
    x = np.exp(logits - logits.max())
    return int(np.searchsorted(np.cumsum(x), rng.random() * x.sum()))


class Context:
    def __init__(self, model, batch):
        options = llama.llama_context_default_params()
        options.n_ctx = batch * (o.prompt + o.new_tokens)
        options.n_batch = options.n_ubatch = max(512, batch)
        options.n_seq_max = batch
        options.n_threads = options.n_threads_batch = o.threads
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        self.handle = llama.llama_init_from_model(model, options)
        self.batch = llama.llama_batch_init(options.n_batch, 0, 1)
        self.room = options.n_batch

    def decode(self, rows):
        """rows: (token, position, sequence, whether its logits are wanted); the logits that
        were."""
        wanted = []
        for first in range(0, len(rows), self.room):
            part = rows[first:first + self.room]
            self.batch.n_tokens = len(part)
            for i, (token, position, sequence, is_wanted) in enumerate(part):
                self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i], self.batch.logits[i] = (token, position,
                    1, is_wanted)
                self.batch.seq_id[i][0] = sequence
            assert llama.llama_decode(self.handle, self.batch) == 0
            for i, row in enumerate(part):
                if row[3]:
                    at = llama.llama_get_logits_ith(self.handle, i)
                    wanted.append(np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)),
                                                        (self.vocabulary,)))
        return wanted


def generate(model, batch):
    best = float("inf")
    for _ in range(2):
        c = Context(model, batch)
        prompts = rng.integers(0, c.vocabulary, (batch, o.prompt))
        start = o.clock()
        logits = c.decode([(int(t), k, s, k == o.prompt - 1) for s in range(batch) for k, t in enumerate(prompts[s])])
        for k in range(o.new_tokens):
            tokens = [draw(x) for x in logits]
            if k + 1 < o.new_tokens:
                logits = c.decode([(t, o.prompt + k, s, True) for s, t in enumerate(tokens)])
        best = min(best, o.clock() - start)
        llama.llama_batch_free(c.batch)
        llama.llama_free(c.handle)
    return batch * o.new_tokens / best


quiet = llama.llama_log_callback(lambda level, text, data: None)   # kept: C calls it
llama.llama_log_set(quiet, None)
llama.llama_backend_init()
sources = glob.glob(f"{o.model}/*.gguf")
if len(sources) != 1:
    sys.exit(f"{o.model}: expected one .gguf file, the one that the model was imported from, found {len(sources)}; "
             f"put it or a link to it there")
with tempfile.TemporaryDirectory() as folder:
    write_fp32(sources[0], f"{folder}/fp32.gguf")
    model = llama.llama_model_load_from_file(f"{folder}/fp32.gguf".encode(), llama.llama_model_default_params())
    peer.print_result("llama.cpp", o, lambda batch: generate(model, batch))
