# tree-sitter's core and its Python grammar as one archive, from the sources that tools/setup.sh
# unpacked. Third-party code: no warnings.
TREE_SITTER_OBJS := $(addprefix $(BUILD)/obj/deps/,core.o grammar.o scanner.o)
TREE_SITTER_CFLAGS = -std=c11 -D_GNU_SOURCE -march=x86-64-v3 -fPIC -w $(FLAGS_$(CONFIG)) \
	-I$(DEPS)/tree-sitter/lib/include -I$(DEPS)/tree-sitter/lib/src -I$(DEPS)/tree-sitter-python
EXTRA_LIBS_lint := $(BUILD)/libtree_sitter.a
CFLAGS += -isystem $(DEPS)/tree-sitter/lib/include

$(BUILD)/obj/deps/core.o:    SOURCE := $(DEPS)/tree-sitter/lib/src/lib.c
$(BUILD)/obj/deps/grammar.o: SOURCE := $(DEPS)/tree-sitter-python/src/parser.c
$(BUILD)/obj/deps/scanner.o: SOURCE := $(DEPS)/tree-sitter-python/src/scanner.c
$(TREE_SITTER_OBJS): | $(SETUP_STAMPS)
	@mkdir -p $(@D)
	$(call say,CC,$(SOURCE))
	$(Q)$(CC) $(TREE_SITTER_CFLAGS) -c $(SOURCE) -o $@

$(BUILD)/libtree_sitter.a: $(TREE_SITTER_OBJS)
	@rm -f $@
	$(Q)ar rcs $@ $^
