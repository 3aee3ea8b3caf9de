# Time of the training stages on a GPU at an 8B's shape: a program of its own over the ops room and libhone_cuda.so.
$(BUILD)/bench/train_stages: $(BUILD)/obj/bench/train_stages.o $(call libs,ops)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-train
bench-train: $(BUILD)/bench/train_stages $(if $(NVCC),$(BUILD)/libhone_cuda.so) ## time of the training stages on a GPU, and the step rate they add up to
	$(BUILD)/bench/train_stages
