# Character classes of the tokenizer (tools/unicode_tables.py says from which Unicode), and the room's fuzz programs.
$(BUILD)/gen/unicode_tables.h: tools/unicode_tables.py
	@mkdir -p $(@D)
	$(VENV)/bin/python tools/unicode_tables.py $@

$(BUILD)/obj/src/text/unicode.o: $(BUILD)/gen/unicode_tables.h

.PHONY: bench-text
bench-text: $(BUILD)/hone ## tokens per second of the tokenizer beside Hugging Face's, one core
	$(BUILD)/hone bench text

FUZZ_TEXT := $(BUILD)/fuzz/fuzz_tokenizer $(BUILD)/fuzz/fuzz_answer
$(BUILD)/fuzz/fuzz_tokenizer: tests/fuzz/tokenizer/fuzz_tokenizer.c
$(BUILD)/fuzz/fuzz_answer: tests/fuzz/answer/fuzz_answer.c
$(FUZZ_TEXT): $(foreach r,text base,$(call srcs,$(r))) $(BUILD)/gen/unicode_tables.h
	@mkdir -p $(@D)
	clang -std=c17 -D_GNU_SOURCE -O1 -g -march=x86-64-v3 -Wno-gnu-folding-constant -Isrc -I$(BUILD)/gen -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined $(filter %.c,$^) $(LDLIBS) -o $@

.PHONY: fuzz-text
fuzz-text: $(FUZZ_TEXT) $(BUILD)/tests/text/test_tokenizer_hf ## fuzz the tokenizer and the answer's extractor for FUZZ_SECONDS (60) each with clang's libFuzzer; 50000 texts a kind against tokenizers
	BUILD=$(BUILD) HONE_FUZZ_TEXTS=50000 $(BUILD)/tests/text/test_tokenizer_hf
	@for name in tokenizer answer; do mkdir -p $(BUILD)/fuzz/corpus-$$name && (cd $(BUILD)/fuzz && ./fuzz_$$name -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=4096 \
		-timeout=10 -print_final_stats=1 -verbosity=0 corpus-$$name $(CURDIR)/tests/fuzz/$$name/corpus) || exit 1; done
