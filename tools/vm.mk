# The vm's element loops rely on the vectoriser, which -O2 of gcc 12 hardly uses.
# -fno-trapping-math changes no value: it says that nobody reads the exception flags, which
# lets selects become masks.
CFLAGS_map_int := -O3
CFLAGS_map_float := -O3 -fno-trapping-math
CFLAGS_map_cast := -O3 -fno-trapping-math
CFLAGS_map_cmp := -O3 -fno-trapping-math
CFLAGS_vm_math := -O3 -fno-trapping-math
CFLAGS_exec_access := -O3
CFLAGS_values := -O3
CFLAGS_exec_core := -O3
CFLAGS_exec_memory := -O3
CFLAGS_exec_region := -O3
CFLAGS_exec_dot := -O3

.PHONY: bench-vm
bench-vm: setup programs $(BUILD)/bench/vm/vm_case_ms ## time of kernels on the vm beside Triton's interpreter, one core
	BUILD=$(BUILD) $(VENV)/bin/python bench/vm/vm_bench.py
	$(BUILD)/hone vm bench/vm/vm_launch.py

# Predicted against measured time of kernels on a GPU (docs/cost-model.md): this half needs none.
.PHONY: bench-cost
COST_SET ?= cost_tasks
bench-cost: setup $(BUILD)/bench/cost/kernel_cost ## predicted time of the variants of COST_SET's tasks: cost_tasks, cost_holdout, cost_waits or cost_traps (and against measured.json where it is)
	BUILD=$(BUILD) $(VENV)/bin/python bench/cost/cost_h200.py --predict --set $(COST_SET)
	BUILD=$(BUILD) $(VENV)/bin/python bench/cost/cost_h200.py --compare --set $(COST_SET)

# libhone_vm.so: the vm for `hone vm`, loaded by worker/vm_driver.py. Only what
# worker/vm_shared.c exports is visible.
$(BUILD)/libhone_vm.so: $(BUILD)/obj/worker/vm_shared.o $(call libs,vm)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -Wl,--exclude-libs,ALL -Wl,-z,defs \
		$(call lib,jansson yaml nettle) -lpthread -lm $(call lib,z) -o $@

.PHONY: test-vm-corpus
test-vm-corpus: setup programs ## run libraries of Triton kernels from PyPI on the vm, beside PyTorch (needs the network once)
	BUILD=$(BUILD) $(VENV)/bin/python tests/vm_corpus/all.py $(LIBRARIES)
