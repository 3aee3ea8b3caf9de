# The demo: set-up is timed and printed apart from the demo proper.
.PHONY: demo demo-pairs
demo: ## set up, build, and run the whole of hone on this machine (12 minutes on 2 cores)
	@start=$$(date +%s); $(MAKE) --no-print-directory setup programs && echo "set-up and build: $$(( $$(date +%s) - start )) s"
	@tools/demo.sh

demo-pairs: setup programs ## write the demo's tasks and verified pairs anew (recipes/demo)
	@tools/demo_pairs.sh

.PHONY: ladder-pairs
ladder-pairs: setup programs ## write 20,000 verified pairs of rungs T0 to T4 (hours on two cores; goes on where it was stopped)
	@tools/ladder_pairs.sh
