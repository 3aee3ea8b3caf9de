# What must be installed before anything compiles: tools/setup.sh. Both stamps come from one run of
# it.
$(SETUP_STAMPS) &: tools/setup.sh
	tools/setup.sh

.PHONY: setup
setup: $(SETUP_STAMPS) ## install what is missing (apt packages, build/venv, build/deps); does nothing when all is there
