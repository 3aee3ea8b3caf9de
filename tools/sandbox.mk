# libhone_sandbox.so: the sandbox for the Python workers (ctypes), from the objects that the program
# links too, and worker/one_device.c and words.c.
SANDBOX_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/sandbox/*.c) worker/one_device.c worker/words.c)

$(BUILD)/libhone_sandbox.so: $(SANDBOX_OBJS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared $^ $(call lib,seccomp) -o $@
