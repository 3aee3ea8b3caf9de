# Sourced by command-level tests: makes a policy of about 100,000 parameters that really
# writes genuine kernels for three elementwise tasks, often but not always when it samples, in
# half a minute. Three pairs are written here, an adapterless `hone sft` learns them nearly by
# heart. Everything is a function of fixed seeds; the result is kept in $BUILD/ref and made
# anew when hone is newer.
#
# usage: . tests/rl/tiny_policy.sh; policy=$(tiny_policy) || exit 1
# leaves in $policy: tasks.jsonl (relu, twice, square), pairs.jsonl, template.txt, init/
# (random), sft/final/ (the policy)

tiny_task() { # name, expression of x
	cat <<-END
		import torch
		import torch.nn as nn

		class Model(nn.Module):
		    def forward(self, x):
		        return $2

		def get_inputs():
		    return [torch.randn(300)]

		def get_init_inputs():
		    return []
	END
}
tiny_answer() { # expression of x in Triton
	cat <<-END
		One program a block.
		\`\`\`python
		import torch
		import torch.nn as nn
		import triton
		import triton.language as tl

		@triton.jit
		def k(p, o, n, B: tl.constexpr):
		    i = tl.program_id(0) * B + tl.arange(0, B)
		    x = tl.load(p + i, mask=i < n)
		    tl.store(o + i, $1, mask=i < n)

		class ModelNew(nn.Module):
		    def forward(self, x):
		        o = torch.empty_like(x)
		        k[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), B=256)
		        return o
		\`\`\`
	END
}
tiny_files() { # folder
	local name reference kernel
	printf '{{task}}\n### kernel\n' >"$1/template.txt"
	while IFS='|' read -r name reference kernel; do
		tiny_task "$name" "$reference" >"$1/$name.py"
		tiny_answer "$kernel" >"$1/$name.answer"
	done <<-'END'
		relu|torch.relu(x)|tl.maximum(x, 0.0)
		twice|x * 2.0|x * 2.0
		square|x * x|x * x
	END
	build/venv/bin/python - "$1" <<-'END'
		import json, sys
		d = sys.argv[1]
		with open(d + "/tasks.jsonl", "w") as tasks, open(d + "/pairs.jsonl", "w") as pairs:
		    for i, name in enumerate(("relu", "twice", "square")):
		        row = dict(name=name, source=open(f"{d}/{name}.py").read(), structure=name, split="train", level=1, seed=i + 1)
		        tasks.write(json.dumps(row) + "\n")
		        prompt = open(d + "/template.txt").read().replace("{{task}}", row["source"].rstrip()) + "\n"
		        pairs.write(json.dumps(dict(row, prompt=prompt, completion=open(f"{d}/{name}.answer").read(), style=0)) + "\n")
	END
}
tiny_make() { # folder
	rm -rf "$1" && mkdir -p "$1" && tiny_files "$1" &&
	"$BUILD/hone" init --text "$1/pairs.jsonl" --vocab_size 448 --hidden_size 64 --num_hidden_layers 2 --num_attention_heads 4 --num_key_value_heads 2 \
		--head_dim 16 --intermediate_size 128 --max_position_embeddings 1024 --rope_theta 10000 --seed 3 --out "$1/init" &&
	"$BUILD/hone" sft --no-use_peft --model "$1/init" --data "$1/pairs.jsonl" --output_dir "$1/sft" --max_tokens 1024 --learning_rate 5e-3 \
		--lr_scheduler_type constant --num_train_epochs 0 --max_steps "${2:-120}" --logging_steps 20 --save_steps 0 --seed 1 --threads 1 &&
		touch "$1/done"
}
tiny_policy() {
	local dir=$BUILD/ref/tiny_policy
	mkdir -p "$BUILD/ref"
	(
		flock 9
		[ "$dir/done" -nt "$BUILD/hone" ] && [ "$dir/done" -nt tests/rl/tiny_policy.sh ] || tiny_make "$dir"
	) 9>"$BUILD/ref/tiny_policy.lock" >"$BUILD/ref/tiny_policy.log" 2>&1 || { cat "$BUILD/ref/tiny_policy.log" >&2; return 1; }
	echo "$dir"
}
