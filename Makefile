# hone. `make help` lists the targets. Everything built goes to build/<config>/; nothing needs a
# clean between configurations.
CONFIG ?= release
BUILD  ?= build/$(CONFIG)
ifeq ($(origin CC),default)
CC     := gcc
endif
VENV   := build/venv
DEPS   := build/deps
# What must be there before anything compiles. They stand here and not in tools/setup.mk, for rules
# take them at once, in whatever order the files are read.
SETUP_STAMPS := $(VENV)/setup.stamp $(DEPS)/setup.stamp
# The folders of bench/ with programs in C; as early, for the same reason.
BENCH_SUBJECTS := cost gpu verify vm
include src/rooms.mk

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Wno-format-truncation -Werror
FLAGS_release := -O2 -g
FLAGS_debug   := -O0 -g3 -DHONE_POISON
FLAGS_asan    := -O1 -g3 -DHONE_POISON -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAGS_tsan    := -O1 -g3 -fsanitize=thread
# x86-64-v3 is the floor; wider vector paths are chosen at run time. Never
# -ffast-math: it folds isnan() to 0.
CFLAGS  = -std=c17 -D_GNU_SOURCE -march=x86-64-v3 -ffp-contract=off -fPIC $(WARN) $(FLAGS_$(CONFIG)) -Isrc -I$(BUILD)/gen -MMD -MP
LDFLAGS = $(filter -fsanitize=%,$(FLAGS_$(CONFIG))) -rdynamic -Wl,-rpath,'$$ORIGIN'
# STATIC=1 links third-party libraries in, for machines that do not have them (make bundle-gpu).
lib     = $(foreach l,$(1),$(if $(STATIC),-l:lib$(l).a,-l$(l)))
LDLIBS  = $(call lib,jansson yaml nettle sqlite3 seccomp utf8proc z) -lpthread -ldl -lm

# One short line a step; V=1 shows the commands.
Q   := $(if $(V),,@)
say  = $(if $(V),,@echo "  $(1)  $(2)")

closure = $(sort $(1) $(foreach u,$(USES_$(1)),$(call closure,$(u))))
srcs    = $(wildcard src/$(1)/*.c src/$(1)/*/*.c)
objs    = $(patsubst %.c,$(BUILD)/obj/%.o,$(call srcs,$(1)))
# A room's archive, those of the rooms it stands on, and the third-party archives of all of them
# (EXTRA_LIBS_<room>, tools/*.mk).
libs    = $(foreach r,$(call closure,$(1)),$(BUILD)/lib$(r).a $(EXTRA_LIBS_$(r)))

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:
-include tools/*.mk

.PHONY: all
all: setup programs ## build build/release/hone (installs what is missing first)

.PHONY: programs
programs: $(BUILD)/hone $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so $(BUILD)/libhone_vm.so $(if $(NVCC),$(BUILD)/libhone_cuda.so)

$(BUILD)/obj/%.o: %.c | $(SETUP_STAMPS)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(CFLAGS_$(notdir $*)) -c $< -o $@

define room_rules
$(BUILD)/lib$(1).a: $(call objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_rules,$(r))))

$(BUILD)/hone: $(call libs,cli)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,--whole-archive $(BUILD)/libcli.a -Wl,--no-whole-archive \
		-Wl,--start-group $(filter-out $(BUILD)/libcli.a,$^) -Wl,--end-group $(LDLIBS) -o $@

# A test, tests/<room>/test_<name>.c -> $(BUILD)/tests/<room>/test_<name>, is linked with the rooms
# that <room> may use.
define test_rules
$(BUILD)/tests/$(1)/%: $(BUILD)/obj/tests/$(1)/%.o $(call libs,$(1))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$(Q)$(CC) $$(LDFLAGS) $$< -Wl,--start-group $(call libs,$(1)) -Wl,--end-group $(LDLIBS) -lcmocka -o $$@
endef
$(foreach r,$(ROOMS),$(eval $(call test_rules,$(r))))

# A benchmark, bench/<subject>/<name>.c -> $(BUILD)/bench/<subject>/<name>, is linked with the rooms
# that BENCH_ROOM_<subject> may use (bench/README.md).
# Two of them share a small world with the tests of their room.
BENCH_ROOM_cost   := vm
BENCH_ROOM_gpu    := ops
BENCH_ROOM_verify := verify
BENCH_ROOM_vm     := vm
$(BUILD)/obj/bench/gpu/gpu_decode.o: CFLAGS += -Itests/ops
$(BUILD)/obj/bench/vm/vm_case_ms.o: CFLAGS += -Itests/vm
define bench_rules
$(BUILD)/bench/$(1)/%: $(BUILD)/obj/bench/$(1)/%.o $(call libs,$(BENCH_ROOM_$(1)))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$(Q)$(CC) $$(LDFLAGS) $$< -Wl,--start-group $(call libs,$(BENCH_ROOM_$(1))) -Wl,--end-group $(LDLIBS) -o $$@
endef
$(foreach s,$(BENCH_SUBJECTS),$(eval $(call bench_rules,$(s))))

.PHONY: clean
clean: ## remove what this CONFIG built
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
