# hone-runner: the clean process that replays tapes. Its main lies in the runner's archive.
RUNNER_OBJS := $(BUILD)/obj/src/runner/runner_main.o

$(BUILD)/hone-runner: $(RUNNER_OBJS) $(call libs,runner)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -ljansson -lnettle -lyaml -lseccomp -lpthread -ldl -lm -o $@
