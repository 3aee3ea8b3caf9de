# bench/verdicts.c: a program of its own over the verify room. (This file comes after tree_sitter.mk, which names a library that lint needs.)
$(BUILD)/bench/verdicts: $(BUILD)/obj/bench/verdicts.o $(call libs,verify)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-verdicts
bench-verdicts: $(BUILD)/bench/verdicts $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so ## verdicts per second on a small task
	$(BUILD)/bench/verdicts
