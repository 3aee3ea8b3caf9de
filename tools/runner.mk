# hone-runner: the clean process that replays tapes. Its main lies in the runner's archive; of the verify room it has the sandbox alone (tools/sandbox.mk).
RUNNER_OBJS := $(BUILD)/obj/src/runner/runner_main.o $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/verify/sandbox*.c))

$(BUILD)/hone-runner: $(RUNNER_OBJS) $(call libs,runner)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -ljansson -lnettle -lyaml -lseccomp -lpthread -ldl -lm -o $@
