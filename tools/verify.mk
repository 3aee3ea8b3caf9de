.PHONY: bench-verdicts
bench-verdicts: $(BUILD)/bench/verify/verdicts $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so ## verdicts per second on a small task
	$(BUILD)/bench/verify/verdicts

.PHONY: prove-corpus
prove-corpus: $(BUILD)/tests/verify/prove_corpus $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so ## prove all honest kernels and exploits of the tests: a table (minutes to an hour)
	$(BUILD)/tests/verify/prove_corpus tests/known_good tests/exploits

# NVIDIA's management library without a GPU, for test_timing.
$(BUILD)/tests/verify/libnvidia-ml.so.1: $(BUILD)/obj/tests/verify/fake_nvml.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared $< -o $@
$(BUILD)/tests/verify/test_timing: | $(BUILD)/tests/verify/libnvidia-ml.so.1

# A runner whose GPU is the vm under another name, for test_gpu_verdicts, test_gpu_kept, test_stock
# and clean's test_clean: its launcher comes before the archives' one.
PRETEND := $(BUILD)/tests/verify/pretend/hone-runner
$(BUILD)/tests/verify/pretend/hone-runner: $(RUNNER_OBJS) $(BUILD)/obj/tests/verify/pretend_gpu.o $(call libs,clean)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(call lib,jansson nettle yaml seccomp) -lpthread -ldl -lm -o $@
	$(Q)ln -sf $(abspath $(BUILD))/libhone_sandbox.so $(@D)/

# The tests of this room start hone-runner and the Python workers. Under a sanitizer those two
# stay plain: Python cannot load a library that needs ASan's runtime, and the runner's memory
# limit has no room for it.
VERIFY_TESTS := $(filter $(BUILD)/tests/verify/%,$(TEST_PROGRAMS))
ifeq ($(filter -fsanitize=%,$(FLAGS_$(CONFIG))),)
$(VERIFY_TESTS): | $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so
$(BUILD)/tests/verify/test_gpu_verdicts $(BUILD)/tests/verify/test_gpu_kept $(BUILD)/tests/verify/test_stock: | $(PRETEND)
$(BUILD)/tests/clean/test_clean: | $(PRETEND)
$(BUILD)/tests/verify/test_runner_pool: | $(BUILD)/fake_driver/libcuda.so.1
$(BUILD)/fake_driver/libcuda.so.1: $(BUILD)/tests/runner/libcuda.so.1
	@mkdir -p $(@D)
	$(Q)cp $< $@
else
$(VERIFY_TESTS): | $(BUILD)/plain_helpers
$(BUILD)/plain_helpers: $(wildcard $(foreach room,$(call closure,runner),src/$(room)/*.[ch] src/$(room)/*/*.[ch]))
	@mkdir -p $(@D)
	$(Q)$(MAKE) --no-print-directory CONFIG=release BUILD=$(BUILD)/plain $(BUILD)/plain/hone-runner $(BUILD)/plain/libhone_sandbox.so \
		$(BUILD)/plain/tests/runner/libcuda.so.1 $(BUILD)/plain/tests/verify/pretend/hone-runner
	$(Q)mkdir -p $(BUILD)/fake_driver && cp $(BUILD)/plain/tests/runner/libcuda.so.1 $(BUILD)/fake_driver/
	$(Q)mkdir -p $(BUILD)/tests/verify/pretend && cp $(BUILD)/plain/tests/verify/pretend/* $(BUILD)/tests/verify/pretend/
	$(Q)cp $(BUILD)/plain/hone-runner $(BUILD)/plain/libhone_sandbox.so $(BUILD)/ && touch $@
endif

.PHONY: soak
soak: $(BUILD)/bench/verify/soak $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so ## 10,000 hostile and broken candidates in a row (hours): nothing lost, leaked or left
	$(BUILD)/bench/verify/soak 10000 1 2

.PHONY: redteam
redteam: setup programs ## 5,000 kernels that are wrong by construction against the verifier (about 80 CPU minutes); REDTEAM='--count 300 --family data'
	$(Q)$(BUILD)/hone redteam --seed 42 $(or $(REDTEAM),--count 5000)
