# make bundle: one folder that runs on another machine, without a compiler and without Debian's
# packages. Third-party libraries lie beside the programs and are found by rpath $ORIGIN (linked in,
# the LGPL's among them could not be replaced). Nothing of NVIDIA's is in it: the driver's library
# is opened by name, cuBLASLt is found by --cuda_libs or in HONE_PYTHON's packages. Python with
# PyTorch and Triton is the machine's: HONE_PYTHON.
BUNDLE ?= build/bundle
BUNDLE_HOME := $(BUNDLE)/lib/hone
BUNDLE_LIBS = $(shell ldd $(BUILD)/hone $(BUILD)/hone-runner $(wildcard $(BUILD)/lib*.so) | \
	awk '$$3 ~ /^\// && $$1 !~ /^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so/ {print $$3}' | sort -u)

.PHONY: bundle
bundle: setup programs ## one folder (BUNDLE) with the programs and their libraries, for machines with another Linux
	@rm -rf "$(BUNDLE)" && install -d "$(BUNDLE_HOME)/worker/shim_bin"
	@install -s -m 755 $(BUILD)/hone $(BUILD)/hone-runner "$(BUNDLE_HOME)"
	@install -m 644 $(wildcard $(BUILD)/lib*.so) $(BUNDLE_LIBS) "$(BUNDLE_HOME)"
	@install -m 644 worker/*.py "$(BUNDLE_HOME)/worker"
	@install -m 755 worker/shim_bin/* "$(BUNDLE_HOME)/worker/shim_bin"
	@cp -r recipes LICENSE README.md "$(BUNDLE_HOME)"
	@tools/licenses.sh "$(BUNDLE_HOME)/licenses" $(BUNDLE_LIBS)
	@objdump -T "$(BUNDLE_HOME)"/hone* "$(BUNDLE_HOME)"/lib*.so* | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -V | tail -1 >"$(BUNDLE_HOME)/glibc"
	@install -m 755 tools/bundle_start.sh "$(BUNDLE)/hone"
	@"$(BUNDLE)/hone" --version
	@echo "$(BUNDLE): $$(du -sh "$(BUNDLE)" | cut -f1), needs glibc $$(cat "$(BUNDLE_HOME)/glibc") or newer"
