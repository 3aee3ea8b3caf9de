# The rooms and their arrows: a room may include the headers of the rooms on its right, and of
# no other. Read by the Makefile (link order) and by tools/arrows.sh (`make arrows`).
# docs/design.md explains each room.
ROOMS := base cost field text tensor ops ranks model infer task policy train lint tape ttir vm sandbox runner prove clean verify agent eval rl store report cli
USES_base   :=
USES_field  := base
USES_text   := base
USES_tensor := base
USES_ops    := base cost tensor
USES_ranks  := base ops
USES_model  := base tensor ops
USES_infer  := base ops model
USES_policy := base text ops model
USES_train  := base text ops ranks model task policy
USES_task   := base
USES_lint   := base
USES_tape   := base
USES_ttir   := base
USES_cost   := base
USES_vm     := base field tape ttir cost
# The folders of a room, where it has several subjects: these arrows are its own.
USES_vm/map   :=
USES_vm/core  := vm/map
USES_vm/ptx   := vm/map
USES_vm/lower := vm/core vm/exec vm/map vm/ptx
USES_vm/check := vm/core vm/map vm/ptx
USES_vm/meter := vm/core vm/map vm/ptx
USES_vm/exec  := vm/core vm/check vm/meter vm/map vm/ptx
USES_vm/exact := vm/core vm/exec vm/map
USES_sandbox :=
USES_runner := base tape cost ttir vm
USES_store  := base
USES_prove  := base field tape ttir vm runner
USES_clean  := base tape vm sandbox runner prove
USES_verify := base task lint tape cost vm sandbox runner prove store
USES_agent  := base tape task verify
USES_eval   := base task verify
USES_rl     := base ops ranks model infer policy train task text agent verify eval store
USES_report := base store
USES_cli    := base text tensor cost ops ranks model infer policy train task sandbox prove verify agent eval rl store report
