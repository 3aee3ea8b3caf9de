# Character classes of the tokenizer (tools/unicode_tables.py says from which Unicode).
$(BUILD)/gen/unicode_tables.h: tools/unicode_tables.py | $(SETUP_STAMPS)
	@mkdir -p $(@D)
	$(VENV)/bin/python tools/unicode_tables.py $@

$(BUILD)/obj/src/text/unicode.o: $(BUILD)/gen/unicode_tables.h

.PHONY: bench-text
bench-text: $(BUILD)/hone ## tokens per second of the tokenizer beside Hugging Face's, one core
	$(BUILD)/hone bench text

.PHONY: fuzz-text
fuzz-text: $(BUILD)/tests/text/test_tokenizer_hf ## 50000 random texts of each kind of tokenizer against tokenizers
	BUILD=$(BUILD) HONE_FUZZ_TEXTS=50000 $(BUILD)/tests/text/test_tokenizer_hf
