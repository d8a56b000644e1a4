# Two commands for a fresh machine: `make demo` and `make test`. Both make .venv by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LAZY := --no-compile # Python compiles what it imports; pip would compile three times as much

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test bench soak cluster check lint types machine-code format seal docs docs-serve figures reproduction notebooks mutation pins clean
# Two cores: pip beside the distribution's packages, mypy beside the other checks.
MAKEFLAGS += --jobs=2

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.runtime ## See Wattveil work: a private release of simulated customers
	@$(BIN)/wattveil demo

test: $(VENV)/.browser $(VENV)/.java check machine-code ## Check, run every test, enforce coverage
	@echo "==> pytest (two processes, random order)"
	@$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=
	@echo "==> coverage: every branch of privacy/, release/ and instance/"
	@$(BIN)/coverage report --include='*/wattveil/privacy/*,*/wattveil/release/*,*/wattveil/instance/*' --fail-under=100
	@echo "==> coverage: 90 % elsewhere"
	@$(BIN)/coverage report --omit='*/wattveil/privacy/*,*/wattveil/release/*,*/wattveil/instance/*' --fail-under=90

bench: $(VENV)/.dev ## Measure speed against named peers, as ratios in one run (long)
	@for script in benchmarks/bench_*.py; do echo "==> $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

soak: $(VENV)/.dev ## Statistical tests on twenty times the samples, 10,000 broken files a reader, 1,000 kills, 20 clusters, 1,000,000 requests (long)
	@WATTVEIL_SOAK=20 $(BIN)/pytest -n 2 --timeout=0 tests/statistical
	@echo "==> audit lower bounds beside the claims"
	@PYTHONPATH=. WATTVEIL_SOAK=20 $(BIN)/python benchmarks/audit_table.py
	@$(BIN)/python benchmarks/fuzz_readers.py
	@WATTVEIL_FUZZ=10000 $(BIN)/pytest -n 2 --timeout=0 tests/integration/test_ingest_fuzz.py
	@WATTVEIL_KILLS=1000 WATTVEIL_CLIENT_SECONDS=600 $(BIN)/pytest --timeout=0 tests/integration/test_ledger_crashes.py
	@WATTVEIL_CLUSTERS=20 $(BIN)/pytest --timeout=0 tests/integration/test_spark_cluster.py
	@WATTVEIL_HISTORIES=2000 $(BIN)/pytest --timeout=0 tests/property/test_ledger_properties.py
	@WATTVEIL_SERVER_KILLS=1000 WATTVEIL_DATABASE_KILLS=100 WATTVEIL_CLIENT_SECONDS=600 $(BIN)/pytest --timeout=0 -rP tests/integration/test_server_crashes.py
	@WATTVEIL_REQUESTS=25000 WATTVEIL_SEEDS=40 $(BIN)/pytest -n 2 --timeout=0 -rP tests/integration/test_server_fuzz.py

cluster: $(VENV)/.dev $(VENV)/.java ## Start Spark on this machine: a master and two workers, until Ctrl-C
	@$(BIN)/python -m tests.spark_cluster

check: types lint ## Lint, formatting, types, import contracts, dependencies

types: $(VENV)/.dev
	@echo "==> mypy"
	@$(BIN)/mypy

lint: $(VENV)/.dev
	@echo "==> ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@echo "==> import contracts"
	@$(BIN)/lint-imports --no-logo --no-cache
	@echo "==> deptry"
	@$(BIN)/deptry src

# What numba kept may be older than a file it came from. Compiled beside mypy, and not by both test processes at once.
machine-code: $(VENV)/.dev
	@find src -name '*.nb[ci]' -delete
	@echo "==> machine code of the loops"
	@$(BIN)/python -W ignore tools/compile_loops.py

format: $(VENV)/.dev ## Rewrite the code in the house style
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

seal: $(VENV)/.dev ## List stale seals of proof pages; renew those read again: PAGES="docs/proofs/x.md"
	@$(BIN)/python tools/seal_proofs.py $(if $(PAGES),--write $(PAGES))

docs: $(VENV)/.dev ## Build the site into site/, offline; a broken link stops it
	@$(BIN)/python -m zensical build --clean --strict

docs-serve: $(VENV)/.dev ## Show the site at http://localhost:8000 while pages change
	@$(BIN)/python -m zensical serve

figures: $(VENV)/.dev $(VENV)/.browser ## Build the pictures of docs/images anew from runs (a minute or two)
	@$(BIN)/python -m tools.build_figures

reproduction: $(VENV)/.dev $(VENV)/.browser ## Draw the paper's figures anew into docs/reproduction.md (some minutes)
	@$(BIN)/python -m tools.build_reproduction

notebooks: $(VENV)/.dev ## Make the examples' notebooks anew from their scripts
	@$(BIN)/python tools/build_notebooks.py

mutation: $(VENV)/.dev ## Mutate privacy/ and list the mutants no test kills (long)
	@$(BIN)/mutmut run
	@$(BIN)/mutmut results

# Resolved in an empty environment, runtime first, so that both files agree on shared packages.
pins: $(VENV)/.python ## Resolve the dependencies anew into requirements/
	@echo "==> resolving in a clean environment"
	@rm -rf $(VENV)/pins && $(PYTHON) -m venv $(VENV)/pins
	@$(VENV)/pins/bin/python -m pip --quiet install .
	@$(call freeze,Runtime) > requirements/base.txt
	@$(VENV)/pins/bin/python -m pip --quiet install --constraint requirements/base.txt '.[grid,opf,postgres,serve,spark,docs,dev]'
	@$(call freeze,Runtime and the extras that the tests use) > requirements/dev.txt
	@rm -rf $(VENV)/pins && wc -l requirements/*.txt

define freeze
{ echo "# $(1), and all that comes with it. Made by \`make pins\`."; \
  $(VENV)/pins/bin/python -m pip list --format=freeze --exclude wattveil --exclude pip --exclude setuptools; }
endef

clean: ## Remove the environment and everything the tools left
	rm -rf $(VENV) mutants dist site .cache .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools -name __pycache__ -type d -exec rm -rf {} +

# --- the environment: stamps in .venv are older than their inputs when there is something to do ---

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Wattveil needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1)."; \
	    echo "Name another one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing. On Debian: apt install python3-venv"; exit 1; }
	@echo "==> making $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.python pyproject.toml requirements/base.txt
	@echo "==> installing Wattveil and what it needs to run (about a minute)"
	@$(PIP) install $(LAZY) --requirement requirements/base.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "==> installing what the tests and checks need (about a minute)"
	@$(PIP) install $(LAZY) --requirement requirements/dev.txt
	@touch $@

# The report is tested in a real browser: the distribution's Chromium. Where it cannot be had, the test says so.
$(VENV)/.browser: $(VENV)/.python
	@command -v chromium >/dev/null || { echo "==> installing Chromium for the browser test"; \
	  { apt-get -qq update && apt-get -qq install --yes chromium; } >/dev/null 2>&1; } || \
	  echo "    not possible here: the browser test will be skipped"
	@touch $@

# Spark runs on Java: that of the distribution. Where it cannot be had, the tests of Spark say so.
# After the browser: apt does one thing at a time.
$(VENV)/.java: $(VENV)/.python | $(VENV)/.browser
	@command -v java >/dev/null || { echo "==> installing Java for the tests of Spark"; \
	  { apt-get -qq update && apt-get -qq install --yes openjdk-17-jre-headless; } >/dev/null 2>&1; } || \
	  echo "    not possible here: the tests of Spark will be skipped"
	@touch $@
