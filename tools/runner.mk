# hone-runner: the clean process that replays tapes.
RUNNER_OBJS := $(BUILD)/obj/src/clean/clean_main.o

$(BUILD)/hone-runner: $(RUNNER_OBJS) $(call libs,clean)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(call lib,jansson nettle yaml seccomp) -lpthread -ldl -lm -o $@

# A driver without a GPU, for the CUDA launcher's test.
$(BUILD)/tests/runner/libcuda.so.1: $(BUILD)/obj/tests/runner/fake_cuda.o $(BUILD)/obj/src/runner/cuda/kernels.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libcuda.so.1 $^ -o $@
$(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/runner/test_launcher_cuda*.c)): | $(BUILD)/tests/runner/libcuda.so.1
# NVIDIA's header of the driver interface comes with Triton.
CFLAGS_test_driver = -DCUDA_HEADER='"$(firstword $(wildcard $(abspath $(VENV))/lib/python3*/site-packages/triton/backends/nvidia/include/cuda.h))"'
