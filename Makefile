# `make` lists the targets. Everything is built below build/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PRESET ?= dev
CONFIG ?= config/server.yaml
ARGS ?=
WITH_RELEASE = FAIRGATE_SOURCE_DIR=$(CURDIR) FAIRGATE_BUILD_DIR=$(CURDIR)/build/release build/venv/bin/python
SOURCES = $$(git ls-files --cached --others --exclude-standard '*.cc' '*.h' | xargs -r ls -d 2>/dev/null)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install everything that building and testing need (Debian, Ubuntu)
	deploy/setup/install.sh test

.PHONY: build
build: ## Build everything (PRESET=dev)
	deploy/setup/install.sh test
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET)

.PHONY: run
run: ## Build the release and start the server (CONFIG=config/server.yaml, ARGS=...)
	deploy/setup/install.sh run
	cmake --preset release >build/configure.log || { cat build/configure.log; exit 1; }
	cmake --build --preset release --target fairgate-server fairgate
	@exec build/release/bin/fairgate-server --config=$(CONFIG) $(ARGS)

.PHONY: test
test: build ## Build and run all tests
	ctest --preset $(PRESET)

.PHONY: test-quick
test-quick: build ## Build and run the tests that take no longer than a moment
	ctest --preset quick

.PHONY: test-stress
test-stress: build ## Run the long tests under faults; their bars are milliseconds: on an idle machine
	ctest --preset stress

.PHONY: asan
asan: ## Run the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(MAKE) build PRESET=asan
	ctest --preset asan

.PHONY: tsan
tsan: ## Run the quick tests under ThreadSanitizer
	$(MAKE) build PRESET=tsan
	ctest --preset tsan

.PHONY: fuzz
fuzz: ## Build the fuzz targets and run each for a minute at most
	$(MAKE) build PRESET=fuzz
	ctest --preset fuzz

.PHONY: lint
lint: ## Check format, Lua, protos and deployment files
	deploy/setup/install.sh test
	files="$(SOURCES)"; [ -z "$$files" ] || clang-format --dry-run --Werror $$files
	luacheck --quiet server/lua
	build/venv/bin/buf lint proto
	build/venv/bin/hadolint docker/Dockerfile
	build/venv/bin/docker-compose -f docker/compose.yaml config --quiet

.PHONY: tidy
tidy: ## Run clang-tidy on every source (slow)
	$(MAKE) build PRESET=tidy

.PHONY: format
format: ## Format the C++ sources in place
	files="$(SOURCES)"; [ -z "$$files" ] || clang-format -i $$files

# What is measured or shown is the release.
.PHONY: release
release:
	deploy/setup/install.sh test
	cmake --preset release
	cmake --build --preset release

.PHONY: demo
demo: release ## Watch tenants and classes share a quota
	$(WITH_RELEASE) tests/eval/demo.py $(ARGS)

# LiteLLM is 750 MB, and its pins are its own.
.PHONY: eval-setup
eval-setup: release
	[ -x build/litellm/bin/litellm ] || { python3 -m venv build/litellm && \
	  build/litellm/bin/python -m pip --quiet --disable-pip-version-check install -r tests/eval/requirements-litellm.txt; }

.PHONY: eval-quick
eval-quick: release ## Evaluate on three workloads, once (5 minutes); writes build/eval-quick
	$(WITH_RELEASE) tests/eval/run.py --quick $(ARGS)

.PHONY: eval
eval: eval-setup ## Evaluate what is still missing in tests/eval/results (ARGS="--minutes 60"); whole, it takes half a day
	$(WITH_RELEASE) tests/eval/run.py $(ARGS)

.PHONY: bench
bench: ## Measure calls per second and latencies beside their ceilings (ARGS=--ghz), about 3 minutes
	deploy/setup/install.sh test
	cmake --preset release -B build/bench-release -DFAIRGATE_BUILD_TESTS=ON
	cmake --build build/bench-release --target bench
	FAIRGATE_BUILD_DIR=$(CURDIR)/build/bench-release build/venv/bin/python tests/bench/run.py $(ARGS)

.PHONY: bench-lua
bench-lua: ## Measure decisions in the store beside bare commands and other limiters (ARGS=--no-peers), about 5 minutes
	deploy/setup/install.sh test
	cmake --preset release -B build/bench-release -DFAIRGATE_BUILD_TESTS=ON
	cmake --build build/bench-release --target bench_replay fairgate_scripts
	FAIRGATE_BUILD_DIR=$(CURDIR)/build/bench-release build/venv/bin/python tests/bench_lua/run.py $(ARGS)

# Bundles the scripts alone: a simulation needs no build.
SIM = cmake -DSCRIPT_DIR=server/lua -DBUNDLE_DIR=build/sim/lua -DCODE_DIR=build/sim/code -P server/cmake/BundleLua.cmake; \
  FAIRGATE_BUILD_DIR=build/sim PYTHONPATH=tests build/venv/bin/python -m sim

.PHONY: sim
sim: ## Simulate the nine workloads against their bars
	$(SIM) --plan quick --json build/sim.json $(ARGS)

.PHONY: sim-full
sim-full: ## Simulate everything; writes tests/sim/results.json and RESULTS.md
	$(SIM) --plan full --json tests/sim/results.json --markdown tests/sim/RESULTS.md $(ARGS)

.PHONY: sim-trace
sim-trace: ## Simulate an hour of a trace with heavy tails; writes tests/sim/trace.json
	$(SIM).trace --arm naive,queue --window fixed,continuous --json tests/sim/trace.json $(ARGS)

.PHONY: clean
clean: ## Remove what was built, but not what setup installed
	find build -mindepth 1 -maxdepth 1 ! -name deps ! -name venv ! -name litellm -exec rm -rf {} +
