# Fuzzing with clang's libFuzzer, under its address and undefined-behaviour sanitizers (build/fuzz).
# A row of the table is an entry: tests/fuzz/NAME.c, the room whose functions it calls, the longest
# input in bytes. tests/fuzz/NAME/corpus holds its seeds, tests/fuzz/NAME/dict, where there is one,
# words of its format. What a run learns stays in build/fuzz/corpus/NAME; what it finds is written
# to build/fuzz/findings/NAME-*: a crash, a leak, a report of a sanitizer, more than 10 s or 1 GiB
# for one input. clang is needed by these targets alone: `make test` runs the entries over their
# seeds without it (tests/fuzz/test_seeds.sh).
FUZZ_TABLE := answer:text:4096 config:model:4096 gguf:tensor:4096 index:tensor:4096 json:base:4096 \
	runner:runner:16384 safetensors:tensor:4096 tape:tape:65536 tape_ir:tape:16384 tokenizer:text:4096 ttgir:cost:32768 ttir:vm:16384 yaml:base:4096
FUZZ_NAMES := $(foreach row,$(FUZZ_TABLE),$(firstword $(subst :, ,$(row))))
FUZZ_SECONDS ?= 60

# Warnings are judged by the other configurations.
FLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -w

# $(1) name, $(2) room, $(3) longest input
define fuzz_rules
build/fuzz/fuzz_$(1): build/fuzz/obj/tests/fuzz/$(1).o $(patsubst $(BUILD)/%,build/fuzz/%,$(call libs,$(2)))
	$$(call say,LD,$$@)
	$$(Q)$$(CC) -fsanitize=fuzzer,address,undefined $$< -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LDLIBS) -o $$@

$(BUILD)/tests/fuzz/seeds_$(1): $(BUILD)/obj/tests/fuzz/$(1).o $(BUILD)/obj/tests/fuzz/seeds.o $(call libs,$(2))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(LDFLAGS) $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LDLIBS) -o $$@
tests: $(BUILD)/tests/fuzz/seeds_$(1)

.PHONY: fuzz-$(1)
fuzz-$(1): fuzz-clang setup
	@$$(MAKE) --no-print-directory CONFIG=fuzz CC=clang build/fuzz/fuzz_$(1)
	@mkdir -p build/fuzz/corpus/$(1) build/fuzz/findings
	build/fuzz/fuzz_$(1) -max_total_time=$$(FUZZ_SECONDS) -max_len=$(3) -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
		$(addprefix -dict=,$(wildcard tests/fuzz/$(1)/dict)) -artifact_prefix=build/fuzz/findings/$(1)- build/fuzz/corpus/$(1) tests/fuzz/$(1)/corpus
endef
$(foreach row,$(FUZZ_TABLE),$(eval $(call fuzz_rules,$(word 1,$(subst :, ,$(row))),$(word 2,$(subst :, ,$(row))),$(word 3,$(subst :, ,$(row))))))

.PHONY: fuzz fuzz-clang
fuzz: ## fuzz every reader for FUZZ_SECONDS (60) each, with clang's libFuzzer; fuzz-NAME one of tests/fuzz/NAME.c
	@for name in $(FUZZ_NAMES); do $(MAKE) --no-print-directory fuzz-$$name || exit 1; done

fuzz-clang:
	@command -v clang >/dev/null || \
		{ echo 'fuzzing needs clang with its libFuzzer (Debian: apt-get install clang libclang-rt-dev); nothing else does' >&2; exit 1; }
