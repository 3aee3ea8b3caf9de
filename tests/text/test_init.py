#!/usr/bin/env python3
"""`hone init`: transformers loads what it writes, sizes and seed do what they say, texts come from
plain files and JSONL rows, bad input is refused."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig  # noqa: E402

HONE = os.environ.get("BUILD", "build/release") + "/hone"
SMALL = ["--hidden_size", "32", "--num_hidden_layers", "2", "--num_attention_heads", "4", "--num_key_value_heads", "2",
         "--head_dim", "8", "--intermediate_size", "48"]
TEXT = "src/text/tokenizer_split.c"


def hone(*args):
    return subprocess.run([HONE, "init", *map(str, args)], capture_output=True, text=True, timeout=120)


def init(folder, *args, text=TEXT):
    result = hone("--out", folder, "--text", text, *SMALL, *args)
    assert result.returncode == 0, result.stderr
    return result


def test_transformers_loads_the_tokenizer(tmp):
    init(tmp / "m", "--vocab_size", 600)
    t = AutoTokenizer.from_pretrained(tmp / "m")
    text = pathlib.Path(TEXT).read_text()
    ids = t(text).input_ids
    assert t.decode(ids) == text and max(ids) < 600 and len(ids) < 0.6 * len(text), len(ids)
    assert t.eos_token == t.pad_token == "<|endoftext|>" and t.eos_token_id == 595
    assert t("<|im_start|><think>").input_ids == [596, 598]
    assert (t.decode(t("<|im_start|><think>x</think><|im_end|>").input_ids, skip_special_tokens=True)
            == "<think>x</think>")
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert t.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == "s\nu\n"
    assert t.apply_chat_template(chat, tokenize=False) == "s\nu"


def test_transformers_loads_the_model(tmp):
    for tied in (True, False):
        init(tmp / "m", "--vocab_size", 520, "--tie_word_embeddings", str(tied).lower(),
             "--max_position_embeddings", 64)
        m, info = AutoModelForCausalLM.from_pretrained(tmp / "m", output_loading_info=True)
        assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        c = m.config
        assert type(m).__name__ == "Qwen3ForCausalLM" and c.tie_word_embeddings == tied
        assert ((c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads, c.head_dim,
                 c.intermediate_size) == (32, 2, 4, 2, 8, 48))
        assert (c.vocab_size, c.max_position_embeddings) == (520, 64)
        assert (m.lm_head.weight.data_ptr() == m.model.embed_tokens.weight.data_ptr()) == tied
        logits = m(torch.arange(20)[None]).logits
        assert logits.shape == (1, 20, 520) and torch.isfinite(logits).all() and logits.std() > 0
        g = GenerationConfig.from_pretrained(tmp / "m")
        assert g.eos_token_id == [515, 517] and g.pad_token_id == 515 and g.top_p == 1.0 and not g.top_k, g


def test_seed(tmp):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        init(tmp / name, "--vocab_size", 300, "--seed", seed)
        weights.append([(tmp / name / f).read_bytes() for f in ("model.safetensors", "tokenizer.json")])
    assert weights[0] == weights[1]
    assert weights[0][0] != weights[2][0] and weights[0][1] == weights[2][1]


def test_jsonl_fields(tmp):
    rows = [{field: f"zq{field}x " * 50, "other": "wkwkwk " * 50, "prompt_ids": [1], "plan": None}
            for field in ("source", "prompt", "code", "completion", "text")]
    with gzip.open(tmp / "rows.jsonl.gz", "wt") as f:
        f.write("\n".join(map(json.dumps, rows)) + "\n\n")
    (tmp / "more.jsonl").write_text(json.dumps({"plan": "zqplanx " * 50}))
    result = hone("--out", tmp / "m", "--text", tmp / "rows.jsonl.gz", tmp / "more.jsonl", TEXT, *SMALL,
                  "--vocab_size", 700, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    vocab = json.loads((tmp / "m" / "tokenizer.json").read_text())["model"]["vocab"]
    for field in ("source", "prompt", "code", "completion", "text", "plan"):
        assert f"Ġzq{field}x" in vocab, field
    assert "Ġwkwkwk" not in vocab
    assert report["texts"] == 7 and report["tokens"] == 700 and report["vocab_size"] == 700
    total = sum(p.numel() for p in AutoModelForCausalLM.from_pretrained(tmp / "m").parameters())
    assert report["parameters"] == total, (report, total)


def test_nfc(tmp):
    (tmp / "t.txt").write_text("cafe\u0301 " * 40)
    init(tmp / "m", "--nfc", "--vocab_size", 280, text=tmp / "t.txt")
    t = AutoTokenizer.from_pretrained(tmp / "m")
    assert t("cafe\u0301").input_ids == t("caf\u00e9").input_ids


def test_few_pairs_leave_rows_over(tmp):
    (tmp / "t.txt").write_text("ab")
    result = init(tmp / "m", "--vocab_size", 400, text=tmp / "t.txt")
    assert "262 tokens (of 400 rows)" in result.stdout, result.stdout
    assert AutoModelForCausalLM.from_pretrained(tmp / "m").config.vocab_size == 400


def test_refusals(tmp):
    (tmp / "bad.txt").write_bytes(b"abc\xff")
    (tmp / "none.jsonl").write_text('{"other": "x"}\n')
    (tmp / "list.jsonl").write_text('{"text": "x"}\n[1]\n')
    (tmp / "broken.jsonl").write_text('{"text": "x"}\n{"text": \n')
    (tmp / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": os.urandom(9000).hex()}).encode())[:-2000])
    out, text = ("--out", tmp / "m"), ("--text", TEXT)
    cases = [
        (2, "--text", out), (2, "--out", text),
        (2, "no multiple", (*out, *text, "--num_attention_heads", 3, "--num_key_value_heads", 2)),
        (2, "even", (*out, *text, "--head_dim", 7)), (2, "--hidden_size", (*out, *text, "--hidden_size", 0)),
        (2, "--hidden_size", (*out, *text, "--hiden_size", 8)),
        (1, "vocab_size", (*out, *text, "--vocab_size", 100)), (1, "no-such", (*out, "--text", tmp / "no-such")),
        (1, "byte 3", (*out, "--text", tmp / "bad.txt")),
        (1, "none.jsonl", (*out, "--text", tmp / "none.jsonl")), (1, "list.jsonl:2", (*out, *text, tmp / "list.jsonl")),
        (1, "broken.jsonl:2", (*out, "--text", tmp / "broken.jsonl")),
        (1, "cut.jsonl.gz", (*out, "--text", tmp / "cut.jsonl.gz")),
        (1, "bad.txt", ("--out", tmp / "bad.txt" / "m", *text)),
    ]
    for status, word, args in cases:
        result = hone(*args)
        assert (result.returncode == status and word in result.stderr and not result.stdout), (args, result.returncode,
            result.stderr)
    assert not (tmp / "m" / "config.json").exists()


def main():
    tests = [(name, f) for name, f in globals().items() if name.startswith("test_")]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for i, (name, f) in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as tmp:
            try:
                f(pathlib.Path(tmp))
                print(f"ok {i} - {name}", flush=True)
            except Exception as e:   # every case is to be reported, whatever it raised
                failed += 1
                print(f"not ok {i} - {name}", *f"{type(e).__name__}: {e}".splitlines(), sep="\n# ", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
