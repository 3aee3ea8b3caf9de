"""hone import on small files of our own: tensors as transformers' GGUF loader has them, tokenizers
as Hugging Face's library builds them, refusals by name."""
import fcntl, json, os, sys

sys.path.append("tests")
from command import check, done, hone, run, work_folder

import gguf, numpy as np, torch, transformers  # noqa: E402
from gguf import GGMLQuantizationType as Q  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
# noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
work = work_folder("import")
HIDDEN, INTER, LAYERS, HEADS, KV_HEADS = 256, 512, 2, 4, 2
ROWS = 600   # of the embedding; the tokenizer has fewer tokens, the rest are unused ones
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<think>", "</think>"]
QUANTS = [Q.Q4_1, Q.Q8_0, Q.Q4_K, Q.Q5_0, Q.Q6_K, Q.F16, Q.Q5_1, Q.Q4_0, Q.Q5_K, Q.BF16, Q.F32]
HALVES = {Q.Q8_0: [0], Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q4_K: [0, 2], Q.Q5_K: [0, 2],
          Q.Q6_K: [208]}

# What each family's own tokenizer.json has, written with the library's classes.
WIDE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+")


def byte_level(regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


def wide(digits):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WIDE % digits), "isolated"), byte_level(False)])


KINDS = {"gpt-2": (None, byte_level(True)), "qwen2": (normalizers.NFC(), wide("")), "llama-bpe": (None, wide("{1,3}")),
         "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]))}
TEXTS = ["The year 1984 and 3.14159, 2024-11-21.", "naïve cafe\u0301 — don't, WE'LL, I'm",
         "  spaces\n\n\ttabs   \r\nend ", "数字 ١٢٣ ½ x²", "the kernels the kernel 12 123 1234 12345",
         "<|im_start|>user\nhi<|im_end|> <think>a</think>", "ſ 'S 'Re 're"]


def tokenizer(kind):
    """All are trained with one splitting, so that all have merges of digits and of spaces before
    them: what a family's own splitting forbids shows in its tokens."""
    t = Tokenizer(models.BPE(ignore_merges=kind == "llama-bpe"))
    t.pre_tokenizer, t.decoder = byte_level(True), decoders.ByteLevel()
    t.train_from_iterator(TEXTS * 3 + ["12 123 99 100 2024 the kernel the kernels"] * 20,
                          trainers.BpeTrainer(vocab_size=380, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                              special_tokens=SPECIAL, show_progress=False))
    t.add_tokens([AddedToken(a, special=False, normalized=False) for a in ADDED])
    normalizer, t.pre_tokenizer = KINDS[kind]
    if normalizer:
        t.normalizer = normalizer
    return t


TOKENIZERS = {kind: tokenizer(kind) for kind in KINDS}


def random_tensor(rng, rows, cols, quant):
    if quant not in HALVES:
        x = (rng.standard_normal((rows, cols)) * 0.05).astype(np.float32)
        return gguf.quantize(x, quant)
    per, size = gguf.GGML_QUANT_SIZES[quant]
    raw = rng.integers(0, 256, (rows * cols // per, size), dtype=np.uint8)
    for at in HALVES[quant]:
        raw[:, at:at + 2] = (rng.standard_normal((len(raw), 1)) * 0.01).astype(np.float16).view(np.uint8)
    return raw.reshape(rows, cols // per * size)


def metadata(arch, kind, head_dim):
    t = TOKENIZERS[kind]
    tokens = [t.id_to_token(i) or f"[PAD{i}]" for i in range(ROWS)]
    types = [3 if a in SPECIAL else 4 if a in ADDED else 5 if a.startswith("[PAD") else 1 for a in tokens]
    merges = [" ".join(m) if isinstance(m, list) else m for m in json.loads(t.to_str())["model"]["merges"]]
    u, f, s = "uint32", "float32", "string"
    m = {f"{arch}.block_count": (LAYERS, u), f"{arch}.context_length": (512, u),
         f"{arch}.embedding_length": (HIDDEN, u), f"{arch}.feed_forward_length": (INTER, u),
         f"{arch}.attention.head_count": (HEADS, u), f"{arch}.attention.head_count_kv": (KV_HEADS, u),
         f"{arch}.rope.freq_base": (500000.0, f), f"{arch}.attention.layer_norm_rms_epsilon": (1e-6, f),
         f"{arch}.attention.key_length": (head_dim, u), f"{arch}.attention.value_length": (head_dim, u),
         "tokenizer.ggml.model": ("gpt2", s), "tokenizer.ggml.pre": (kind, s),
         "tokenizer.ggml.tokens": (tokens, "array"), "tokenizer.ggml.token_type": (types, "array"),
         "tokenizer.ggml.merges": (merges, "array"), "tokenizer.ggml.bos_token_id": (1, u),
         "tokenizer.ggml.eos_token_id": (2, u), "tokenizer.ggml.padding_token_id": (0, u),
         "tokenizer.chat_template": ("{{ 'für ' + messages[0]['content'] }}", s)}
    if arch == "llama":
        m["llama.rope.dimension_count"] = (head_dim, u)
    return m


def tensors(arch, head_dim, tied):
    rng, order, out = np.random.default_rng(len(arch)), 0, {}
    q, kv = HEADS * head_dim, KV_HEADS * head_dim
    rows = {"attn_q": (q, HIDDEN), "attn_k": (kv, HIDDEN), "attn_v": (kv, HIDDEN), "attn_output": (HIDDEN, q),
            "ffn_gate": (INTER, HIDDEN), "ffn_up": (INTER, HIDDEN), "ffn_down": (HIDDEN, INTER)}
    vectors = {"attn_norm": HIDDEN, "ffn_norm": HIDDEN}
    if arch == "qwen2":
        vectors.update({"attn_q.bias": q, "attn_k.bias": kv, "attn_v.bias": kv})
    if arch == "qwen3":
        vectors.update({"attn_q_norm": head_dim, "attn_k_norm": head_dim})
    out["token_embd.weight"] = (random_tensor(rng, ROWS, HIDDEN, Q.Q6_K), Q.Q6_K)
    for l in range(LAYERS):
        for name, shape in rows.items():
            quant = QUANTS[order % len(QUANTS)]
            order += 1
            out[f"blk.{l}.{name}.weight"] = (random_tensor(rng, *shape, quant), quant)
        for name, n in vectors.items():
            out[f"blk.{l}.{name}" + ("" if "." in name else ".weight")] = (rng.standard_normal(n).astype(np.float32),
                                                                           Q.F32)
    out["output_norm.weight"] = (rng.standard_normal(HIDDEN).astype(np.float32), Q.F32)
    if not tied:
        out["output.weight"] = (random_tensor(rng, ROWS, HIDDEN, Q.Q8_0), Q.Q8_0)
    return out


ARCHS = {"llama": ("smollm", 64, True), "qwen2": ("qwen2", 64, True), "qwen3": ("qwen2", 128, False)}


def make(name, arch="llama", kind=None, meta={}, data={}):
    """A file; meta and data replace or, where None, leave out entries and tensors."""
    default_kind, head_dim, tied = ARCHS[arch]
    m = {**metadata(arch, kind or default_kind, head_dim), **meta}
    w = gguf.GGUFWriter(f"{work}/{name}.gguf", m.pop("general.architecture", (arch,))[0])
    for key, entry in m.items():
        if entry and entry[1] == "array":
            w.add_array(key, entry[0])
        elif entry:
            w.add_key_value(key, entry[0], gguf.GGUFValueType[entry[1].upper()])
    for key, entry in {**tensors(arch, head_dim, tied), **data}.items():
        if entry:
            w.add_tensor(key, entry[0], raw_dtype=entry[1])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return f"{work}/{name}.gguf"


def differing(ours, want):
    bits = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
    return [n for n, t in ours.items() if t.dtype != want[n].dtype or t.shape != want[n].shape
            or not torch.equal(t.view(bits[t.dtype]), want[n].view(bits[t.dtype]))]


def test_tensors(arch):
    file = make(arch, arch)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(work, gguf_file=f"{arch}.gguf", dtype=torch.float32)
    want, config = theirs.state_dict(), theirs.config
    for dtype in ("float32", "bfloat16"):
        out = f"{work}/{arch}-{dtype}"
        p = run(hone, "import", file, "--out", out, "--dtype", dtype, expect=0)
        ours = load_file(f"{out}/model.safetensors")
        rounded = {n: t.to(getattr(torch, dtype)) for n, t in want.items()}
        missing = want.keys() ^ ours.keys()
        check(f"{arch} {dtype}: every tensor is transformers' to the bit",
              p.returncode == 0 and not differing(ours, rounded) and missing == ({"lm_head.weight"} if ARCHS[arch][2]
                  else set()), (missing, differing(ours, rounded)))
        model, info = transformers.AutoModelForCausalLM.from_pretrained(out, dtype="auto", output_loading_info=True)
        fields = ["model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                  "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings",
                  "tie_word_embeddings", "rope_parameters"]
        differ = [f for f in fields if hasattr(config, f) and getattr(model.config, f, None) != getattr(config, f)]
        check(f"{arch} {dtype}: transformers opens the folder, nothing missing or left over",
            not info["missing_keys"] and not info["unexpected_keys"] and not differ
              and model.dtype == getattr(torch, dtype) and model.config.rms_norm_eps == 1e-6, (info, differ))
        p = run(hone, "generate", "--model", out, "--prompt", "the kernel", "--max_new_tokens", 3, "--json", expect=0)
        check(f"{arch} {dtype}: hone opens the folder", p.returncode == 0, p.stderr)


def test_tokenizer(kind):
    out = f"{work}/tokenizer-{kind}"
    run(hone, "import", make(f"tokenizer-{kind}", kind=kind), "--out", out, expect=0)
    want, ours, auto = (TOKENIZERS[kind], Tokenizer.from_file(f"{out}/tokenizer.json"),
                        transformers.AutoTokenizer.from_pretrained(out))
    differ = [(text, ours.encode(text, add_special_tokens=False).ids, want.encode(text, add_special_tokens=False).ids)
              for text in TEXTS
              if ours.encode(text, add_special_tokens=False).ids != want.encode(text, add_special_tokens=False).ids]
    check(f"{kind}: tokens as the library's own construction", not differ and ours.get_vocab() == want.get_vocab(),
          differ)
    for name, text in (("prompt", "x"), ("text", "\n".join(TEXTS))):
        open(f"{work}/{name}", "w", newline="").write(text)
    p = run(hone, "score", "--model", out, "--prompt_file", f"{work}/prompt", "--completion_file", f"{work}/text",
            "--json", expect=0)
    got = json.loads(p.stdout)["tokens"] if p.returncode == 0 else p.stderr
    check(f"{kind}: hone's tokens are the same", got == want.encode("\n".join(TEXTS), add_special_tokens=False).ids,
          got)
    first = auto("the").input_ids[0]
    check(f"{kind}: BOS in front only in Llama 3's, special tokens are dropped in decoding, added ones kept",
          (first == 1) == (kind == "llama-bpe") and auto.decode(auto("<|im_start|><think>x").input_ids,
                                                                skip_special_tokens=True) == "<think>x"
          and auto.eos_token == "<|im_end|>" and auto.pad_token == "<|endoftext|>", first)
    check(f"{kind}: the chat template is kept as it stands",
          auto.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False) == "für x")


def test_rope():
    """Llama 3's stretched frequencies, from which transformers must compute what the tensor in the
    file said."""
    head_dim, theta = 64, 500000.0
    base = theta ** (-np.arange(0, head_dim, 2, dtype=np.float32) / head_dim)
    smooth = np.clip((8192 * base / (2 * np.pi) - 1) / 3, 0, 1)
    divisors = (1 / ((1 - smooth) / 32 + smooth)).astype(np.float32)
    out = f"{work}/rope"
    run(hone, "import", make("rope", data={"rope_freqs.weight": (divisors, Q.F32)}), "--out", out, expect=0)
    config = transformers.AutoConfig.from_pretrained(out)
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    inv_freq, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    # Three roundings to fp32 of a product and a quotient on either side: 1e-5 is generous, and far
    # below the factor between neighbours.
    check("rope_freqs.weight becomes Llama 3's rope parameters",
          config.rope_parameters["factor"] == 32 and np.allclose(inv_freq.numpy(), base / divisors, rtol=1e-5, atol=0),
          config.rope_parameters)
    other = np.linspace(1, 8, 32, dtype=np.float32)
    refused("other stretching", "tensor 'rope_freqs.weight' is not that of Llama 3",
            data={"rope_freqs.weight": (other, Q.F32)})
    run(hone, "import", make("plain", data={"rope_freqs.weight": (np.ones(32, np.float32), Q.F32)}),
        "--out", f"{work}/plain", expect=0)
    check("divisors of one are no stretching",
          transformers.AutoConfig.from_pretrained(f"{work}/plain").rope_parameters["rope_type"] == "default")


def refused(name, text, *options, out=f"{work}/refused", **changes):
    file = make("refused", **changes)
    p = run(hone, "import", file, "--out", out, *options)
    check(f"refused: {name}", p.returncode == 1 and text in p.stderr and not os.path.exists(f"{out}/config.json")
          and ("refused.gguf" in p.stderr or options), p.stderr)


def test_refusals():
    tokens = metadata("llama", "smollm", 64)["tokenizer.ggml.tokens"][0]
    f32 = lambda *shape: (np.zeros(shape, np.float32), Q.F32)  # noqa: E731
    raw = (np.zeros((HIDDEN, INTER // 256 * 84), np.uint8), Q.Q2_K)
    # The file as a whole; then its metadata; then tensors; then the tokenizer.
    refused("architecture", 'architecture "gemma3" is not supported; supported are llama, qwen2 and qwen3',
            meta={"general.architecture": ("gemma3", "string")})
    refused("a part of a file", "one of 3 parts; join them", meta={"split.count": (3, "uint16")})
    refused("packing", "tensor 'blk.0.ffn_down.weight': type Q2_K is not supported",
            data={"blk.0.ffn_down.weight": raw})
    refused("pre-tokenizer", 'pre-tokenizer "deepseek-llm" is not known; known are gpt-2, qwen2, llama-bpe and smollm',
        meta={"tokenizer.ggml.pre": ("deepseek-llm", "string")})
    refused("no pre-tokenizer", "metadata 'tokenizer.ggml.pre' is missing", meta={"tokenizer.ggml.pre": None})
    refused("SentencePiece", 'tokenizer.ggml.model "llama" is not supported',
            meta={"tokenizer.ggml.model": ("llama", "string")})
    refused("experts", "metadata 'llama.expert_count' is 8, which is not supported",
            meta={"llama.expert_count": (8, "uint32")})
    refused("window", "metadata 'llama.attention.sliding_window' is 4096",
            meta={"llama.attention.sliding_window": (4096, "uint32")})
    refused("part of a head rotated", "metadata 'llama.rope.dimension_count' is 32",
            meta={"llama.rope.dimension_count": (32, "uint32")})
    refused("a key of the architecture that is not known", "metadata 'llama.logit_scale' is not known",
            meta={"llama.logit_scale": (2.0, "float32")})
    refused("rope scaling", "metadata 'llama.rope.scaling.type' is \"yarn\"",
            meta={"llama.rope.scaling.type": ("yarn", "string")})
    refused("no size", "metadata 'llama.block_count' is missing", meta={"llama.block_count": None})
    refused("a list for a size", "metadata 'llama.attention.head_count_kv': expected an integer, found list",
        meta={"llama.attention.head_count_kv": ([2, 2], "array")})
    refused("heads", "num_attention_heads 4 is no multiple of num_key_value_heads 3",
            meta={"llama.attention.head_count_kv": (3, "uint32")})
    refused("a tensor is missing", "tensor 'blk.1.ffn_up.weight' is missing", data={"blk.1.ffn_up.weight": None})
    refused("a tensor too many", "tensor 'blk.0.attn_q.bias' is not part of this architecture",
            data={"blk.0.attn_q.bias": f32(256)})
    refused("a tensor of another shape", "tensor 'output_norm.weight': 1 dimensions, 255 values",
            data={"output_norm.weight": f32(255)})
    refused("more tokens than rows", "601 tokens, but the embedding has 600 rows",
            meta={"tokenizer.ggml.tokens": (tokens + ["more"], "array"),
                  "tokenizer.ggml.token_type": ([1] * 601, "array")})
    refused("kinds of other tokens", "metadata 'tokenizer.ggml.token_type': expected a list of 600 int32",
        meta={"tokenizer.ggml.token_type": ([1] * 599, "array")})
    refused("a kind of token", "token 0 has type 6; expected 1 to 5",
            meta={"tokenizer.ggml.token_type": ([6] * 600, "array")})
    refused("a token twice", 'token 7: "<|im_end|>" is token 2 already',
            meta={"tokenizer.ggml.tokens": (tokens[:7] + tokens[2:3] + tokens[8:], "array")})
    refused("a token of bytes", "token 7: byte 1 is not valid UTF-8",
            meta={"tokenizer.ggml.tokens":
                  ([t.encode() for t in tokens[:7]] + [b"a\xff"] + [t.encode() for t in tokens[8:]], "array")})
    refused("a merge of nothing", "is not in model.vocab", meta={"tokenizer.ggml.merges": (["zz qq"], "array")})
    refused("BOS outside", "metadata 'tokenizer.ggml.bos_token_id' is 600, but the embedding has 600 rows",
        meta={"tokenizer.ggml.bos_token_id": (600, "uint32")})
    refused("BOS that is text", "which is not a control token", meta={"tokenizer.ggml.bos_token_id": (50, "uint32"),
        "tokenizer.ggml.add_bos_token": (True, "bool")})
    refused("EOS behind texts", "'tokenizer.ggml.add_eos_token' is true",
            meta={"tokenizer.ggml.add_eos_token": (True, "bool")})
    check("a refused tokenizer leaves no file", not os.path.exists(f"{work}/refused/tokenizer.json"))
    refused("a chat template of bytes", "metadata 'tokenizer.chat_template'",
            meta={"tokenizer.chat_template": (b"{{ '\xff' }}", "string")})


def test_some_tokens():
    """No beginning of texts, and a padding row that no token belongs to: the others are kept."""
    m = metadata("llama", "smollm", 64)
    fewer = {f"tokenizer.ggml.{k}": (m[f"tokenizer.ggml.{k}"][0][:-8], "array") for k in ("tokens", "token_type")}
    out = f"{work}/some"
    run(hone, "import", make("some", meta={**fewer, "tokenizer.ggml.bos_token_id": None,
                                           "tokenizer.ggml.padding_token_id": (ROWS - 1, "uint32")}),
        "--out", out, expect=0)
    c = json.load(open(f"{out}/tokenizer_config.json"))
    check("tokens that are not there are not named", "bos_token" not in c and "pad_token" not in c
          and c.get("eos_token") == "<|im_end|>", c)


def test_command():
    other = f"{work}/tokenizer-gpt-2"
    p = run(hone, "import", make("copied", meta={"tokenizer.ggml.pre": ("unheard-of", "string")}),
            "--out", f"{work}/copied", "--tokenizer", other, expect=0)
    check("--tokenizer takes another folder's files",
          p.returncode == 0 and open(f"{work}/copied/tokenizer.json").read() == open(f"{other}/tokenizer.json").read()
          and run(hone, "generate", "--model", f"{work}/copied", "--prompt", "a", "--max_new_tokens", 1,
                  "--json").returncode == 0, p.stderr)
    # A folder that another process holds, with what a killed one left.
    held = f"{work}/held"
    os.makedirs(held)
    half = f"{held}/model.safetensors.4711.tmp"
    open(half, "w").close()
    holder = os.open(held, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    again = ["import", f"{work}/copied.gguf", "--out", held, "--tokenizer", other]
    p = run(hone, *again, expect=1)
    check("a folder that another writes into is refused by name, and left as it is",
          f"{held}: another hone is writing" in p.stderr and os.listdir(held) == [os.path.basename(half)], p.stderr)
    os.close(holder)
    p = run(hone, *again, expect=0)
    check("what a killed import left goes",
          not os.path.exists(half) and os.path.exists(f"{held}/model.safetensors"), os.listdir(held))
    usage = [["import"], ["import", "a.gguf"], ["import", "a", "b", "--out", "x"],
             ["import", "a.gguf", "--out", "x", "--dtype", "int4"]]
    check("wrong usage ends with 2", [run(hone, *u).returncode for u in usage] == [2] * 4)
    p = run(hone, "import", f"{work}/absent.gguf", "--out", f"{work}/x")
    check("a missing file is named",
          p.returncode == 1 and "absent.gguf: cannot open" in p.stderr and not os.path.exists(f"{work}/x"), p.stderr)
    check("it is listed", "make a model folder of a GGUF file" in run(hone, "--help").stdout)


for arch in ARCHS:
    test_tensors(arch)
for kind in KINDS:
    test_tokenizer(kind)
test_rope()
test_some_tokens()
test_refusals()
test_command()
done()
