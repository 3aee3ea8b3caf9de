# The tape's fuzz program, with clang's libFuzzer where clang is installed.
$(BUILD)/fuzz/fuzz_tape: tests/fuzz/tape/fuzz_tape.c $(wildcard src/tape/*.c src/base/*.c)
	@mkdir -p $(@D)
	clang -std=c17 -D_GNU_SOURCE -O1 -g -march=x86-64-v3 -Wno-gnu-folding-constant -Isrc -fsanitize=fuzzer,address,undefined $^ -ljansson -lyaml -lnettle -lpthread -lm -o $@

.PHONY: fuzz-tape
fuzz-tape: $(BUILD)/fuzz/fuzz_tape ## fuzz the tape's parser for FUZZ_SECONDS (60), with clang's libFuzzer
	@mkdir -p $(BUILD)/fuzz/corpus-tape
	$< -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=65536 -timeout=10 -print_final_stats=1 -verbosity=0 $(BUILD)/fuzz/corpus-tape tests/fuzz/tape/corpus
