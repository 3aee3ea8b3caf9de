# libhone_sandbox.so: the sandbox for the Python workers (ctypes), from the objects that the program
# links too, and what the tracer has in C.
SANDBOX_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/sandbox/*.c) $(addprefix worker/,arenas.c descriptors.c events.c one_device.c words.c))

$(BUILD)/libhone_sandbox.so: $(SANDBOX_OBJS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared $^ $(call lib,seccomp) -o $@
