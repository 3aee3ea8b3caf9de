"""Opens with transformers and peft what hone wrote: model_check.py MODEL_FOLDER LOGITS.safetensors [ADAPTER_FOLDER]. LOGITS holds ids (as fp32), start (as fp32), logits and tolerance;
logits are hone's. Exit status 0 when theirs agree within tolerance times the largest magnitude."""
import sys, torch, transformers
from safetensors.torch import load_file

torch.set_num_threads(1)
e = load_file(sys.argv[2])
model, info = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
if info["missing_keys"] or info["unexpected_keys"]:
    sys.exit(f"loading: {info}")
if len(sys.argv) > 3:
    import peft
    model = peft.PeftModel.from_pretrained(model, sys.argv[3])
model.eval()
ids, start = e["ids"].long(), e["start"].long().tolist()
with torch.no_grad():
    theirs = torch.cat([model(input_ids=ids[a:b][None]).logits[0] for a, b in zip(start, start[1:])])
error = ((theirs - e["logits"]).abs().max() / theirs.abs().max()).item()
if not error <= e["tolerance"].item():
    sys.exit(f"relative error {error}, tolerance {e['tolerance'].item()}")
