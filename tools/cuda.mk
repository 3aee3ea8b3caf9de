# The CUDA backend, a plugin: libhone_cuda.so beside the program, where there is an nvcc (a
# toolkit's, or build/cuda of tools/setup.sh --cuda). Functions of base (err_set, check_failed,
# xcalloc) are the program's; cudart is inside; cuBLASLt is opened at run time. CUDA_ARCH is what
# nvcc makes code for: Hopper, and every other card from 8.0 on (sm_80 runs on 8.0, 8.6 and 8.9;
# later cards translate compute_80).
# An nvcc of another CUDA is none: the rest builds beside it as where there is no nvcc.
cuda_13 = $(shell $(1) --version 2>/dev/null | grep -q 'release 13\.' && echo $(1))
NVCC := $(firstword $(foreach n,$(shell command -v nvcc 2>/dev/null) $(wildcard build/cuda/nvidia/cu13/bin/nvcc),$(call cuda_13,$(n))))
CUDA_ARCH ?= -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=[sm_80,compute_80]
# Where torch's headers and libraries lie: asked when they are needed, since the first make of a
# clone installs them on its way.
CUDA_SITE = $(firstword $(shell ls -d $(VENV)/lib/python3*/site-packages/nvidia/cu13 2>/dev/null))
CUDA_FLAGS = -std=c++20 -O3 -g -lineinfo $(CUDA_ARCH) -Werror all-warnings -Isrc -I$(CUDA_SITE)/include \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wno-unused-parameter,-Wno-missing-field-initializers,-fno-strict-aliasing,-Werror
CUDA_SOURCES := $(wildcard src/ops/cuda/*.cu)
CUDA_OBJS := $(patsubst %.cu,$(BUILD)/obj/%.cu.o,$(CUDA_SOURCES)) $(patsubst %.c,$(BUILD)/obj/%.plugin.o,$(wildcard src/ops/cuda/*.c))

$(BUILD)/obj/%.cu.o: %.cu src/ops/ops.h | $(SETUP_STAMPS)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(CUDA_FLAGS) -DHONE_OPS_ABI='"$(OPS_ABI)"' -MMD -MP -MF $(BUILD)/obj/$*.cu.d -c $< -o $@

# What is plain C there is compiled once more for the plugin, which shows nothing of it and has no
# sanitizer's or coverage's library of its own.
$(BUILD)/obj/src/ops/cuda/%.plugin.o: src/ops/cuda/%.c | $(SETUP_STAMPS)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden $(WARN) -Isrc -MMD -MP -c $< -o $@

$(BUILD)/libhone_cuda.so: $(CUDA_OBJS)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared $(CUDA_ARCH) -cudart static -L$(CUDA_SITE)/lib -Xlinker --exclude-libs,ALL -Xcompiler -static-libstdc++,-static-libgcc $^ -ldl -o $@

.PHONY: cuda
cuda: $(if $(NVCC),$(BUILD)/libhone_cuda.so) ## build the CUDA backend (libhone_cuda.so), where there is an nvcc
	$(if $(NVCC),,@echo 'make cuda: no nvcc of CUDA 13 on the PATH nor in build/cuda; tools/setup.sh --cuda fetches one' >&2; exit 1)

.PHONY: bench-decode
bench-decode: $(BUILD)/bench/gpu/gpu_decode $(if $(NVCC),$(BUILD)/libhone_cuda.so) ## time of a decode step of an 8B on a GPU beside what it has to read
	$(BUILD)/bench/gpu/gpu_decode

.PHONY: bench-train
bench-train: $(BUILD)/bench/gpu/train_stages $(if $(NVCC),$(BUILD)/libhone_cuda.so) ## time of the training stages on a GPU, and the step rate they add up to
	$(BUILD)/bench/gpu/train_stages

# The code of the other cards alone, put together for a Hopper GPU: what --cuda_card runs
# there is then what those cards run, not Hopper's code held to their limits.
# tests/gpu/test_cards.sh takes it.
.PHONY: cuda-cards
cuda-cards: ## build/cards/libhone_cuda.so: compute_80's code for a Hopper GPU, to test the paths of other cards there
	$(Q)$(MAKE) BUILD=build/cards CUDA_ARCH='-gencode arch=compute_80,code=sm_90' build/cards/libhone_cuda.so

.PHONY: test-cards
CARDS_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/ops/test_stages_*.c tests/gpu/parity.c tests/gpu/corpus.c))
test-cards: setup programs cuda-cards $(BUILD)/libhone_cuda.so $(CARDS_TESTS) ## the paths for an A100 and an RTX 4090, on a Hopper GPU that is held to them
	BUILD=$(BUILD) tests/gpu/test_cards.sh

.PHONY: sanitize-stages
STAGE_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/ops/test_stages_*.c))
sanitize-stages: setup $(BUILD)/libhone_cuda.so $(STAGE_TESTS) ## all cases of the stage tests under compute-sanitizer's four tools (of the CUDA toolkit, in PATH; SANITIZE='--until 470')
	$(GPU_PYTHON) tests/gpu/sanitize.py $(SANITIZE) $(STAGE_TESTS)
