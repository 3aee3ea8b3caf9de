# Tests: tests/<room>/test_*.c become programs in $(BUILD)/tests, tests/run.sh
# runs them and the scripts.
TEST_PROGRAMS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*/test_*.c))

.PHONY: tests test test-corpora test-asan test-tsan sanitize-cpu arrows format format-check help
# grade_list has a test of its own, a script.
tests: $(TEST_PROGRAMS) $(BUILD)/bench/verify/grade_list ## build the C tests

# Nobody runs them every day, so a change that breaks one would go unseen.
BENCH_PROGRAMS := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard $(BENCH_SUBJECTS:%=bench/%/*.c)))
.PHONY: benches
benches: $(BENCH_PROGRAMS) ## build the C benchmarks

test: setup ## build everything and run all tests; FILTER=room/name for some
	@$(MAKE) --no-print-directory programs tests
	@BUILD=$(BUILD) tests/run.sh --filter '$(FILTER)'

# Whole corpora. `make test` takes a share of each by a fixed rule (tests/verify/graded_folder.h,
# tests/share.py), which meets each kind of reason; this is for changes of what judges.
CORPUS_TESTS := verify/test_exploits|verify/test_known_good|tape/test_tracer
test-corpora: setup ## grade all exploits, all their twins and all honest kernels (make test: a share); for changes of the verifier
	@$(MAKE) --no-print-directory programs tests
	@CORPORA=all BUILD=$(BUILD) tests/run.sh --filter '$(or $(FILTER),@($(CORPUS_TESTS)))'

test-asan: setup ## run the C tests with the address and undefined-behaviour sanitizers (build/asan)
	@$(MAKE) --no-print-directory CONFIG=asan BUILD=build/asan tests
	@BUILD=build/asan tests/run.sh --programs --timeout 1200 --filter '$(FILTER)'

# What test-asan runs without its longest room, whose programs start Python. It sees what no
# assertion does: an element read or written beside its array, memory that nobody frees.
SANITIZE_ROOMS := $(filter-out verify,$(ROOMS))
empty :=
sanitize-cpu: setup ## run the C tests of all rooms but verify with the address and undefined-behaviour sanitizers (build/asan)
	@$(MAKE) --no-print-directory CONFIG=asan BUILD=build/asan build/asan/plain_helpers \
		$(patsubst $(BUILD)/%,build/asan/%,$(filter $(SANITIZE_ROOMS:%=$(BUILD)/tests/%/%),$(TEST_PROGRAMS)))
	@BUILD=build/asan tests/run.sh --programs --timeout 1200 --filter '$(or $(FILTER),@($(subst $(empty) ,|,$(SANITIZE_ROOMS)))/)'

# The rooms whose own threads share memory.
TSAN_ROOMS := base vm
test-tsan: setup ## run the C tests of base and vm with the thread sanitizer (build/tsan)
	@$(MAKE) --no-print-directory CONFIG=tsan BUILD=build/tsan \
		$(patsubst $(BUILD)/%,build/tsan/%,$(filter $(foreach room,$(TSAN_ROOMS),$(BUILD)/tests/$(room)/%),$(TEST_PROGRAMS)))
	@BUILD=build/tsan tests/run.sh --programs --timeout 1200 --filter '$(or $(FILTER),@(base|vm)/)'

arrows: ## check the #include lines against src/rooms.mk
	@tools/arrows.sh

format: ## write the C sources in the form of .clang-format, and break wide prose
	@tools/format.sh

format-check: ## name the C sources that are not, lines over 120 columns, prose over 100, long functions without a word, names without meaning
	@tools/format.sh --check

help: ## list the targets
	@echo 'usage: make [TARGET] [CONFIG=release|debug|asan|tsan] [V=1]'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | LC_ALL=C sort -u | awk -F'\t' '{ printf "  %-12s %s\n", $$1, $$2 }'

.PHONY: mutants
mutants: setup $(BUILD)/bench/verify/grade_list $(BUILD)/hone-runner $(BUILD)/libhone_sandbox.so ## plant errors in honest kernels and see whether the verifier notices (an hour; MUTANTS='--count 50 --seed 2')
	$(VENV)/bin/python tools/kernel_mutants.py $(MUTANTS)

.PHONY: mutate
MUTATE ?= --count 300 --seed 1
mutate: setup ## plant errors one at a time and see whether a test notices (hours; MUTATE='--count 10 --rooms base')
	$(VENV)/bin/python tools/mutate.py $(MUTATE)
