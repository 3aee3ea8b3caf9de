# libhone_sandbox.so: the sandbox alone, for the Python workers (ctypes). The program links the same objects.
SANDBOX_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/verify/sandbox*.c))

$(BUILD)/libhone_sandbox.so: $(SANDBOX_OBJS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared $^ -lseccomp -o $@
