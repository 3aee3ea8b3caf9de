# The kernels of the ladder (src/task/templates) as one C string a file: the
# program carries its templates.
TEMPLATES := $(sort $(wildcard src/task/templates/*.txt))
$(BUILD)/gen/task_templates.inc: $(TEMPLATES) tools/task.mk
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed -e 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' $(TEMPLATES) >$@.tmp
	@mv $@.tmp $@

$(BUILD)/obj/src/task/task_template.o: $(BUILD)/gen/task_templates.inc
