# The safetensors and GGUF readers' fuzz programs, with clang's libFuzzer where clang is installed.
FUZZ_TENSOR := $(BUILD)/fuzz/fuzz_safetensors $(BUILD)/fuzz/fuzz_gguf
$(BUILD)/fuzz/fuzz_safetensors: tests/fuzz/safetensors/fuzz_safetensors.c
$(BUILD)/fuzz/fuzz_gguf: tests/fuzz/gguf/fuzz_gguf.c
$(FUZZ_TENSOR): $(wildcard src/tensor/*.c src/base/*.c)
	@mkdir -p $(@D)
	clang -std=c17 -D_GNU_SOURCE -O1 -g -march=x86-64-v3 -Wno-gnu-folding-constant -Isrc -fsanitize=fuzzer,address,undefined $(filter %.c,$^) $(LDLIBS) -o $@

.PHONY: fuzz-tensor
fuzz-tensor: $(FUZZ_TENSOR) ## fuzz the safetensors and GGUF readers for FUZZ_SECONDS (60) each, with clang's libFuzzer
	@for name in safetensors gguf; do mkdir -p $(BUILD)/fuzz/corpus-$$name && $(BUILD)/fuzz/fuzz_$$name -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=4096 -timeout=10 \
		-print_final_stats=1 -verbosity=0 $(BUILD)/fuzz/corpus-$$name tests/fuzz/$$name/corpus || exit 1; done
