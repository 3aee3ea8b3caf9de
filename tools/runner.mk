# hone-runner: the clean process that replays tapes. Its main lies in the runner's archive; the sandbox is one object of the verify room.
$(BUILD)/hone-runner: $(BUILD)/obj/src/runner/runner_main.o $(BUILD)/obj/src/verify/sandbox.o $(call libs,runner)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -ljansson -lnettle -lyaml -lseccomp -lpthread -ldl -lm -o $@
