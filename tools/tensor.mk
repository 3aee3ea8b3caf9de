# The safetensors reader's fuzz program, with clang's libFuzzer where clang is installed.
$(BUILD)/fuzz/fuzz_safetensors: tests/fuzz/safetensors/fuzz_safetensors.c $(wildcard src/tensor/*.c src/base/*.c)
	@mkdir -p $(@D)
	clang -std=c17 -D_GNU_SOURCE -O1 -g -march=x86-64-v3 -Wno-gnu-folding-constant -Isrc -fsanitize=fuzzer,address,undefined $^ -ljansson -lyaml -lnettle -lpthread -lm -o $@

.PHONY: fuzz-tensor
fuzz-tensor: $(BUILD)/fuzz/fuzz_safetensors ## fuzz the safetensors reader for FUZZ_SECONDS (60), with clang's libFuzzer
	@mkdir -p $(BUILD)/fuzz/corpus-safetensors
	$< -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=4096 -timeout=10 -print_final_stats=1 -verbosity=0 $(BUILD)/fuzz/corpus-safetensors tests/fuzz/safetensors/corpus
