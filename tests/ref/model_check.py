"""Opens with transformers and peft what hone wrote: model_check.py (MODEL_FOLDER LOGITS.safetensors
ADAPTER_FOLDER|-)... LOGITS holds ids (as fp32), start (as fp32), logits and tolerance; logits are
hone's. Adapters are written again by peft, as ADAPTER_FOLDER/back. Exit status 0 when theirs agree
within tolerance times the largest magnitude; else what differs is on stderr."""
import sys, torch, transformers
from safetensors.torch import load_file


def check(folder, logits, adapter):
    e = load_file(logits)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                    attn_implementation="eager",
                                                                    output_loading_info=True)
    if info["missing_keys"] or info["unexpected_keys"]:
        sys.exit(f"{folder}: {info}")
    if adapter != "-":
        import peft
        model = peft.PeftModel.from_pretrained(model, adapter)
        ours, theirs = load_file(f"{adapter}/adapter_model.safetensors"), peft.get_peft_model_state_dict(model)
        if sorted(ours) != sorted(theirs) or not all(torch.equal(ours[k], theirs[k]) for k in ours):
            sys.exit(f"{adapter}: peft loaded other tensors")
        model.save_pretrained(f"{adapter}/back")
    model.eval()
    ids, start = e["ids"].long(), e["start"].long().tolist()
    with torch.no_grad():
        theirs = torch.cat([model(input_ids=ids[a:b][None]).logits[0] for a, b in zip(start, start[1:])])
    error = ((theirs - e["logits"]).abs().max() / theirs.abs().max()).item()
    if not error <= e["tolerance"].item():
        sys.exit(f"{folder}: relative error {error}, tolerance {e['tolerance'].item()}")


torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
for i in range(1, len(sys.argv), 3):
    check(*sys.argv[i:i + 3])
