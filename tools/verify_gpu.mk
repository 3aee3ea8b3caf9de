# Tests on a GPU. bundle-gpu puts programs, workers and fixtures into one folder that runs on a
# machine with a GPU, Python, PyTorch and Triton, and nothing of this tree's set-up; test-gpu makes
# it and runs it here. (This file comes after tree_sitter.mk, as verify.mk does.)
GPU_BUNDLE ?= build/gpu

GPU_PROGRAMS := clocks corpus faults moves
$(patsubst %,$(BUILD)/tests/gpu/%,$(GPU_PROGRAMS)): $(BUILD)/tests/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(call libs,verify)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS) -o $@

# What a device computes for a training problem, for tests/gpu/parity.py.
$(BUILD)/tests/gpu/parity: $(BUILD)/obj/tests/gpu/parity.o $(call libs,train)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: test-parity
PARITY_DEVICE ?= cuda
test-parity: setup $(BUILD)/tests/gpu/parity ## logits, loss, gradients and 10 steps against transformers and peft (PARITY_DEVICE=check for bf16 without a GPU)
	$(VENV)/bin/python tests/gpu/parity.py $(BUILD)/tests/gpu/parity --device $(PARITY_DEVICE)

# The engine's part lies in a folder of its own: programs that end in what the device answers, the
# backend, and the small model that they load.
GPU_ENGINE := tests/gpu/parity $(patsubst %.c,%,$(wildcard tests/ops/test_stages_*.c)) tests/infer/test_generate tests/rl/test_plan tests/train/test_resume

.PHONY: bundle-gpu test-gpu
bundle-gpu: setup ## a folder (GPU_BUNDLE) with all that the tests on a GPU need
	@$(MAKE) --no-print-directory STATIC=1 BUILD=build/static build/static/hone build/static/hone-runner build/static/libhone_sandbox.so \
		$(patsubst %,build/static/tests/gpu/%,$(GPU_PROGRAMS)) $(patsubst %,build/static/%,$(GPU_ENGINE)) $(if $(NVCC),build/static/libhone_cuda.so)
	@rm -rf $(GPU_BUNDLE) && mkdir -p $(GPU_BUNDLE)/tests
	@cp build/static/hone build/static/hone-runner build/static/libhone_sandbox.so $(patsubst %,build/static/tests/gpu/%,$(GPU_PROGRAMS)) \
		$(GPU_BUNDLE)/
	@strip $(GPU_BUNDLE)/hone $(GPU_BUNDLE)/hone-runner $(patsubst %,$(GPU_BUNDLE)/%,$(GPU_PROGRAMS))
	@$(VENV)/bin/python tests/gpu/make_fixtures.py $(GPU_BUNDLE)/fixtures
	@cp -r worker $(GPU_BUNDLE)/ && rm -rf $(GPU_BUNDLE)/worker/__pycache__
	@cp -r tests/known_good tests/exploits tests/gpu $(GPU_BUNDLE)/tests/
	@mkdir -p $(GPU_BUNDLE)/engine
	@cp $(patsubst %,build/static/%,$(GPU_ENGINE)) $(if $(NVCC),build/static/libhone_cuda.so) $(GPU_BUNDLE)/engine/
	@cp -L "$$(ldd build/static/tests/rl/test_plan | awk '/libcmocka/ {print $$3}')" $(GPU_BUNDLE)/engine/
	@strip $(GPU_BUNDLE)/engine/*
	@build/venv/bin/python tests/ref/infer_oracle.py $(GPU_BUNDLE)/engine/ref/infer 2>/dev/null
	@echo "$(GPU_BUNDLE): $$(du -sh $(GPU_BUNDLE) | cut -f1)"

test-gpu: bundle-gpu ## the tests on this machine's GPU, the engine's and the verifier's; no GPU is a failure
	@export HONE_GPU_TESTS=1 HONE_PYTHON=$(abspath $(GPU_PYTHON)); \
		$(GPU_BUNDLE)/tests/gpu/test_engine.sh $(CURDIR)/build/gpu-logs; status=$$?; \
		$(GPU_BUNDLE)/tests/gpu/test_gpu.sh $(CURDIR)/build/gpu-logs && exit $$status

.PHONY: sanitize-gpu
sanitize-gpu: bundle-gpu ## the CUDA launcher's own kernels under compute-sanitizer (of the CUDA toolkit, in PATH)
	@for tool in memcheck racecheck initcheck; do compute-sanitizer --tool $$tool --error-exitcode 9 $(GPU_BUNDLE)/moves 0 20 1 || exit 1; done

# A checkout of KernelBench is the user's to name: KERNELBENCH=FOLDER. What it runs of the
# candidates has no sandbox.
GPU_PYTHON := $(or $(HONE_PYTHON),$(VENV)/bin/python)
.PHONY: audit-gpu stock-check live-gpu
audit-gpu: setup ## all tasks of a KernelBench checkout (KERNELBENCH=FOLDER) on this machine's GPU at their own sizes: a table (minutes)
	@test -n "$(KERNELBENCH)" || { echo 'make audit-gpu KERNELBENCH=FOLDER: a checkout of KernelBench is needed'; exit 2; }
	@$(GPU_PYTHON) bench/verify/audit_gpu.py run "$(KERNELBENCH)" --out build/audit_gpu.jsonl
	@$(GPU_PYTHON) bench/verify/audit_gpu.py table build/audit_gpu.jsonl
stock-check: bundle-gpu ## KernelBench's own check beside hone's verdicts over the honest kernels and the exploits (KERNELBENCH=FOLDER): tables (minutes)
	@test -n "$(KERNELBENCH)" || { echo 'make stock-check KERNELBENCH=FOLDER: a checkout of KernelBench is needed'; exit 2; }
	@for f in known_good exploits; do HONE_PYTHON=$(GPU_PYTHON) $(GPU_BUNDLE)/corpus cuda:0 full tests/$$f build/stock_$$f.jsonl 0 untimed | tail -n 2; done
	@$(GPU_PYTHON) bench/verify/stock_check.py run --kernelbench "$(KERNELBENCH)" --out build/stock.jsonl --trials 20 tests/known_good tests/exploits
	@for what in table runs; do $(GPU_PYTHON) bench/verify/stock_check.py $$what build/stock.jsonl build/stock_known_good.jsonl build/stock_exploits.jsonl; done
live-gpu: bundle-gpu ## the honest kernels' files run for real on this machine's GPU: each gives what its tape gave (a minute)
	@HONE_PYTHON=$(GPU_PYTHON) $(GPU_BUNDLE)/corpus cuda:0 full tests/known_good build/live_known_good.jsonl 0 untimed live | grep -v '^ok'
