# Flags of the CPU backend's files (src/ops/cpu/simd.h tells why the families are compiled twice). Named by file, without folder and .c.
# Under a fuzzer they only have to be there, and clang's optimiser with sanitizers takes minutes over them.
OPS_O := $(if $(filter release,$(CONFIG)),-O3)$(if $(filter fuzz,$(CONFIG)),-O0)
$(foreach f,matmul norm rope attention attention_backward mlp head optim,$(eval CFLAGS_$(f) := $(OPS_O)))
CFLAGS_avx512 := $(OPS_O) -march=x86-64-v4 -mprefer-vector-width=512
