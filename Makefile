# On a new machine, run `make demo` or `make test`: both create .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LAZY := --no-compile # Python compiles what it imports; pip would compile three times as much

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast bench leaderboard soak cluster check lint types format seal docs docs-serve figures reproduction notebooks mutation pins clean
# Where this is set, each of the many processes of the tests would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Two cores: pip beside the distribution's packages, mypy beside the other checks.
MAKEFLAGS += --jobs=2

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.runtime ## Release statistics of simulated customers with differential privacy
	@$(BIN)/wattveil demo

# What the tests need is installed, so a skip for another reason than those in pyproject.toml is an error.
# Where packages cannot be installed: make test SKIPS=
SKIPS ?= --strict-skips
# Three processes on two cores: tests that wait for a server, a database or Spark leave a core free.
PYTEST := $(BIN)/pytest -n 3 --dist worksteal
# Threads of linear algebra in each of these processes, and in those that tests start, would only wait for each other.
test test-fast soak: export OMP_NUM_THREADS := 1

test: $(VENV)/.browser $(VENV)/.java $(VENV)/.postgres $(VENV)/.deployment check $(VENV)/.machine-code ## Check, run every test, enforce coverage
	@echo "==> pytest (three processes, random order)"
	@$(PYTEST) $(SKIPS) --durations=30 --cov --cov-report=
	@echo "==> coverage: every branch of privacy/ and release/"
	@$(BIN)/coverage report --include='*/wattveil/privacy/*,*/wattveil/release/*' --fail-under=100
	@echo "==> coverage: 90 % in the other packages"
	@$(BIN)/coverage report --omit='*/wattveil/privacy/*,*/wattveil/release/*' --fail-under=90

test-fast: $(VENV)/.machine-code ## Quick unit and property tests with few examples: no Spark, browser, server or database
	@$(PYTEST) --few-examples --durations=10 tests/unit tests/property

bench: $(VENV)/.dev ## Measure speed against named peers, as ratios in one run (long)
	@for script in benchmarks/bench_*.py; do echo "==> $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

leaderboard: $(VENV)/.dev ## Compare private K-means methods on all families; resumes; add one with METHOD=file.py (half an hour)
	@OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python benchmarks/leaderboard.py $(if $(METHOD),--method $(METHOD)) $(FLAGS)

soak: $(VENV)/.dev ## Statistical tests on twenty times the samples, ten times the examples of properties, 10,000 mutated files per reader, 1,000 kills, 20 clusters, 1,000,000 requests (long)
	@WATTVEIL_SOAK=20 $(BIN)/pytest -n 2 --timeout=0 tests/statistical
	@WATTVEIL_SOAK=1 $(BIN)/pytest -n 2 --timeout=0 -m long
	@WATTVEIL_SOAK=1 $(BIN)/pytest -n 2 --timeout=0 tests/property
	@echo "==> audit lower bounds beside the claims"
	@PYTHONPATH=. WATTVEIL_SOAK=20 $(BIN)/python benchmarks/audit_table.py
	@PYTHONPATH=. $(BIN)/python benchmarks/fuzz_readers.py
	@WATTVEIL_FUZZ=10000 $(BIN)/pytest -n 2 --timeout=0 tests/integration/test_reading_fuzz.py
	@WATTVEIL_KILLS=1000 WATTVEIL_CLIENT_SECONDS=600 $(BIN)/pytest --timeout=0 tests/integration/test_ledger_crashes.py
	@WATTVEIL_CLUSTERS=20 $(BIN)/pytest --timeout=0 tests/integration/engines/test_spark_cluster.py
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

# Machine code that numba stored may be older than a file it was made from. Compiled beside mypy, once for all processes,
# as are the tests and what they import: processes that start together would each compile them.
LOOPS := $(shell grep -rl --include='*.py' '^ *@compiled' src)
$(VENV)/.machine-code: $(VENV)/.dev $(LOOPS)
	@find src -name '*.nb[ci]' -delete
	@echo "==> machine code of the loops"
	@$(BIN)/python -W ignore tools/compile_loops.py
	@$(BIN)/pytest --collect-only --quiet --quiet -p no:cacheprovider >/dev/null 2>&1 || true # an error is shown when the tests run
	@touch $@

format: $(VENV)/.dev ## Reformat the code
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

seal: $(VENV)/.dev ## List stale seals of proof pages; renew those read again: PAGES="docs/proofs/x.md"
	@$(BIN)/python -m tools.seal_proofs $(if $(PAGES),--write $(PAGES))

docs: $(VENV)/.dev ## Build the site into site/, offline; a broken link stops it
	@$(BIN)/python -m zensical build --clean --strict

docs-serve: $(VENV)/.dev ## Show the site at http://localhost:8000 while pages change
	@$(BIN)/python -m zensical serve

figures: $(VENV)/.dev $(VENV)/.browser ## Rebuild the pictures of docs/images from runs (a minute or two)
	@$(BIN)/python -m tools.build_figures

reproduction: $(VENV)/.dev $(VENV)/.browser ## Redraw the paper's figures in docs/reproduction.md (some minutes)
	@$(BIN)/python -m tools.build_reproduction

notebooks: $(VENV)/.dev ## Rebuild the examples' notebooks from their scripts
	@$(BIN)/python tools/build_notebooks.py

mutation: $(VENV)/.dev ## Mutate privacy/ and list the mutants no test kills (long)
	@$(BIN)/mutmut run
	@$(BIN)/mutmut results

# Resolved in an empty environment, runtime first, so that both files agree on shared packages.
pins: $(VENV)/.python ## Resolve the dependencies into requirements/
	@echo "==> resolving in a clean environment"
	@rm -rf $(VENV)/pins && $(PYTHON) -m venv $(VENV)/pins
	@$(VENV)/pins/bin/python -m pip --quiet install '.[release]'
	@$(call freeze,Runtime) > requirements/base.txt
	@$(VENV)/pins/bin/python -m pip --quiet install --constraint requirements/base.txt '.[excel,grid,oidc,opf,otel,pandas,postgres,serve,spark,word,docs,dev]'
	@$(call freeze,Runtime and the extras that the tests use) > requirements/dev.txt
	@rm -rf $(VENV)/pins && wc -l requirements/*.txt

define freeze
{ echo "# $(1), and all that comes with it. Made by \`make pins\`."; \
  $(VENV)/pins/bin/python -m pip list --format=freeze --exclude wattveil --exclude pip --exclude setuptools; }
endef

clean: ## Remove the environment and all files that tools made
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

# PySpark is published as a source archive, from which pip makes a wheel for half a minute: beside the installation of the others.
$(VENV)/.tools: $(VENV)/.runtime requirements/dev.txt
	@echo "==> installing what the tests and checks need (about a minute)"
	@grep -v '^pyspark==' requirements/dev.txt | $(PIP) install $(LAZY) --requirement /dev/stdin
	@touch $@

$(VENV)/.spark: requirements/dev.txt | $(VENV)/.runtime
	@echo "==> making a wheel of PySpark"
	@grep '^pyspark==' requirements/dev.txt | $(PIP) wheel --no-deps --wheel-dir $(VENV)/wheels --requirement /dev/stdin
	@touch $@

$(VENV)/.dev: $(VENV)/.tools $(VENV)/.spark
	@if [ -d $(VENV)/wheels ]; then $(PIP) install $(LAZY) --no-deps $(VENV)/wheels/*.whl && rm -r $(VENV)/wheels; fi
	@touch $@

# Tests of pages, Spark and the ledger use Chromium, Java and PostgreSQL of the distribution. apt runs once at a time.
$(VENV)/.browser: $(VENV)/.python
	@$(call install,chromium,command -v chromium)
	@touch $@

$(VENV)/.java: $(VENV)/.python | $(VENV)/.browser
	@$(call install,openjdk-17-jre-headless,command -v java)
	@touch $@

# Debian's package would create and start a cluster, unless its settings forbid it. Tests start their own.
CLUSTER_SETTINGS := /etc/postgresql-common/createcluster.conf
$(VENV)/.postgres: $(VENV)/.python | $(VENV)/.java
	@$(call has,$(POSTGRES)) || [ -e $(CLUSTER_SETTINGS) ] || { mkdir -p $(dir $(CLUSTER_SETTINGS)) && \
	  echo "create_main_cluster = false" > $(CLUSTER_SETTINGS); } 2>/dev/null || true
	@$(call install,postgresql,$(POSTGRES))
	@$(call install,curl,command -v curl)
	@$(call install,sqlite3,command -v sqlite3)
	@touch $@

# Programs that read deployment files. Unpacked, not installed: their packages would start services.
$(VENV)/.deployment: $(VENV)/.python | $(VENV)/.postgres
	@$(call has,command -v promtool && command -v nginx) || { echo "==> unpacking promtool and nginx for the tests"; \
	  $(call has,$(UNPACK)); } || \
	  echo "    not possible here: tests that need them will be skipped, and make test fails (see SKIPS)"
	@touch $@

UNPACK := mkdir -p $(VENV)/deployment && cd $(VENV)/deployment && \
  { apt-get download prometheus nginx || { apt-get update && apt-get download prometheus nginx; }; } && \
  for package in *.deb; do dpkg -x $$package . || exit 1; done && rm *.deb && \
  ln -sf ../deployment/usr/bin/promtool ../deployment/usr/sbin/nginx ../bin/
POSTGRES := command -v postgres || ls /usr/lib/postgresql/*/bin/postgres

define has
{ $(1); } >/dev/null 2>&1
endef

define install
$(call has,$(2)) || { echo "==> installing $(1) for the tests"; \
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
    --option Dpkg::Options::=--force-confold $(1); } >/dev/null 2>&1; } || \
  echo "    not possible here: tests that need $(1) will be skipped, and make test fails (see SKIPS)"
endef
