# Character classes of the tokenizer (tools/unicode_tables.py says from which Unicode).
$(BUILD)/gen/unicode_tables.h: tools/unicode_tables.py
	@mkdir -p $(@D)
	$(VENV)/bin/python tools/unicode_tables.py $@

$(BUILD)/obj/src/text/unicode.o: $(BUILD)/gen/unicode_tables.h

$(BUILD)/bench/text_bench: $(BUILD)/obj/bench/text_bench.o $(call libs,text)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $< -Wl,--start-group $(call libs,text) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-text
bench-text: $(BUILD)/bench/text_bench ## tokens per second of the tokenizer beside Hugging Face's, one core
	BUILD=$(BUILD) $(VENV)/bin/python bench/text_bench.py

