# Flags of the CPU backend's files (src/ops/cpu/simd.h tells why the families are compiled twice). Named by file, without folder and .c.
OPS_O := $(if $(filter release,$(CONFIG)),-O3)
$(foreach f,matmul norm rope attention attention_backward mlp head optim,$(eval CFLAGS_$(f) := $(OPS_O)))
CFLAGS_avx512 := $(OPS_O) -march=x86-64-v4 -mprefer-vector-width=512
