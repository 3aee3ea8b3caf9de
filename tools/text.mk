# Character classes of the tokenizer (tools/unicode_tables.py says from which Unicode), and the room's fuzz programs.
$(BUILD)/gen/unicode_tables.h: tools/unicode_tables.py
	@mkdir -p $(@D)
	$(VENV)/bin/python tools/unicode_tables.py $@

$(BUILD)/obj/src/text/unicode.o: $(BUILD)/gen/unicode_tables.h
