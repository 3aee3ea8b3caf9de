# Flags of the CPU backend's files (src/ops/cpu/simd.h tells why the families are compiled twice).
# Named by file, without folder and .c. Under a fuzzer they only have to be there, and clang's
# optimiser with sanitizers takes minutes over them.
OPS_O := $(if $(filter release,$(CONFIG)),-O3)$(if $(filter fuzz,$(CONFIG)),-O0)
$(foreach f,matmul norm rope attention attention_backward mlp head optim,$(eval CFLAGS_$(f) := $(OPS_O)))
CFLAGS_avx512 := $(OPS_O) -march=x86-64-v4 -mprefer-vector-width=512
# The layout of the table, by which a plugin is refused that was made from another ops.h.
OPS_ABI := $(shell sha256sum src/ops/ops.h | cut -c1-16)
CFLAGS_ops_open := -DHONE_OPS_ABI='"$(OPS_ABI)"'

# An NCCL without a GPU, for the test of the group of ranks. It has no soname, by which the loader
# would take it for the machine's.
$(BUILD)/tests/ops/libnccl.so.2: $(BUILD)/obj/tests/ops/fake_nccl.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared $< -o $@
$(BUILD)/tests/ops/test_nccl $(BUILD)/tests/ops/test_libraries: | $(BUILD)/tests/ops/libnccl.so.2
