# make install: the programs, the Python workers and the recipes go to
# PREFIX/lib/hone, and PREFIX/bin/hone points there. The Python environment (several
# GB) is not copied: PREFIX/lib/hone/build/venv is a link to the one that set-up made,
# so this checkout's build/venv has to stay.
PREFIX ?= /usr/local
HOME_DIR := $(DESTDIR)$(PREFIX)/lib/hone

.PHONY: install uninstall
install: setup programs ## install to PREFIX (/usr/local): lib/hone and bin/hone; DESTDIR is put before it
	install -d "$(HOME_DIR)/worker/shim_bin" "$(HOME_DIR)/build" "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 $(BUILD)/hone $(BUILD)/hone-runner "$(HOME_DIR)"
	install -m 644 $(wildcard $(BUILD)/lib*.so) "$(HOME_DIR)"
	install -m 644 worker/*.py "$(HOME_DIR)/worker"
	install -m 755 worker/shim_bin/* "$(HOME_DIR)/worker/shim_bin"
	cp -r recipes "$(HOME_DIR)"
	ln -sfn "$(abspath $(VENV))" "$(HOME_DIR)/build/venv"
	ln -sfn ../lib/hone/hone "$(DESTDIR)$(PREFIX)/bin/hone"
	@"$(DESTDIR)$(PREFIX)/bin/hone" --version

uninstall: ## remove what install wrote
	rm -rf "$(HOME_DIR)" "$(DESTDIR)$(PREFIX)/bin/hone"
