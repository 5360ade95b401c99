# Works on a fresh machine with Python 3.10 or later, make and git. `make PYTHON=python3.12 test` picks the interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
RUN_STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
# How many test processes; a test file stays in one, since its tests share diagnoses. The lab runs alone: its jobs have time-outs.
JOBS ?= auto
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
# Libraries whose threads stay in the process: theirs is one of its own. 5 is pytest's word for no such test among those asked for.
THREADS = $(BIN)/python -m pytest -m threads $(or $(PYTEST_ARGS),tests/unit/cluster tests/unit/api)
# PyTorch for the lab: auto (a CPU build, where pip offers one), no, or yes (whatever pip offers, CUDA builds too).
LAB ?= auto
# Where `make bench` makes its logs, and how many of how many megabytes.
BENCH ?= bench/data
BENCH_FILES ?= 16
BENCH_MB ?= 128

# What the tests import is compiled once, at its first import, and kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo ready test test-threads test-server test-slurm test-browser test-core lint lint-types lint-style docs web bench bench-smoke quality clean

help:  ## Show what there is to make.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# Editable: what is run is what stands in src/. pip before 22 cannot do that with this kind of project.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "firstfault needs Python 3.10 or later; '$(PYTHON)' is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "This Python cannot make virtual environments (ensurepip is missing). On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=22"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@# An editable install compiles nothing, and with PYTHONDONTWRITEBYTECODE every start would do it again (0.2 s).
	@$(BIN)/python -m compileall -q src/firstfault || true
	@touch $@

$(STAMP): $(RUN_STAMP) tools/dev_requirements.py pyproject.toml
	$(BIN)/python tools/dev_requirements.py > $(VENV)/dev.txt
	@# Not compiled: most of what the tests need is never imported, and to compile all of it takes longer than to fetch it.
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -r $(VENV)/dev.txt
	@touch $@

$(VENV)/.lab-$(LAB): $(STAMP) tools/install_torch.py
	$(BIN)/python tools/install_torch.py $(LAB)
	@touch $@

# The script of the HTML report comes from web/; whoever does not change it needs no node. With npm its tests also get axe and
# the schema of SARIF, and what is packaged is held against what the sources give.
web/node_modules/.package-lock.json: web/package-lock.json
	npm ci --prefix web --no-fund --no-audit --loglevel error
	@touch $@

$(VENV)/.web: $(STAMP) $(wildcard web/src/* web/*.mjs web/*.json src/firstfault/report/assets/*)
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/node_modules/.package-lock.json && npm run --silent --prefix web check && touch $@; \
	else echo "npm is not here: the report's script was not built again, and the tests that need axe or SARIF's schema will be skipped" >&2; fi

# All that pip brings.
ready: $(STAMP) $(VENV)/.lab-$(LAB)

web: web/node_modules/.package-lock.json  ## Build the script and the style of the HTML report into the package (needs npm).
	npm run --silent --prefix web build

demo: $(RUN_STAMP)  ## Install into .venv and diagnose the bundled incident.
	@$(BIN)/firstfault --exit-zero examples/incident/logs
	@echo "(make ends with 0 all the same: the demo asks for that with --exit-zero)"

test: $(STAMP)  ## Everything: style, types and imports, then all tests that this machine can run.
	@$(MAKE) --no-print-directory -j3 --output-sync=target lint-types lint-style $(VENV)/.web
	@$(MAKE) --no-print-directory $(VENV)/.lab-$(LAB)
	$(PYTEST) -m "not torch and not browser and not server and not slurm and not threads" $(PYTEST_ARGS)
	@sh tools/need_postgres.sh
	@sh tools/need_slurm.sh
	@# These wait more than they work.
	@$(MAKE) --no-print-directory -j4 --output-sync=target test-threads test-server test-slurm test-browser
	$(BIN)/python -m pytest -m torch tests/lab $(PYTEST_ARGS)

test-threads: $(STAMP)
	$(THREADS) || [ $$? -eq 5 ]

test-server: $(STAMP)
	$(BIN)/python -m pytest -m server tests/unit/incidents $(PYTEST_ARGS)

test-slurm: $(STAMP)
	$(BIN)/python -m pytest -m slurm tests/slurm $(PYTEST_ARGS)

test-browser: $(STAMP)
	$(BIN)/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

test-core: $(STAMP)  ## The tests that need neither torch nor a browser nor PostgreSQL nor Slurm nor root.
	$(PYTEST) -m "not torch and not browser and not server and not slurm and not threads" $(PYTEST_ARGS)
	$(THREADS) || [ $$? -eq 5 ]

lint: $(STAMP)  ## Style, types, imports and docstrings.
	@$(MAKE) --no-print-directory -j2 lint-types lint-style

lint-types: $(STAMP)
	$(BIN)/mypy

lint-style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/interrogate --quiet src/firstfault tools

docs: $(STAMP)  ## Write the generated pages and the schema anew.
	$(BIN)/python tools/generate_docs.py

bench: $(STAMP)  ## Measure speed and memory against ripgrep on 2 GB of logs made for it.
	$(BIN)/python bench/scan/make.py $(BENCH) --files $(BENCH_FILES) --mb $(BENCH_MB)
	$(BIN)/python bench/scan/run.py $(BENCH)

bench-smoke: $(STAMP)  ## The same on 2 MB, one round: the answers are right, the clock says nothing.
	$(BIN)/python bench/scan/make.py $(BENCH)/smoke --files 2 --mb 1
	$(BIN)/python bench/scan/run.py $(BENCH)/smoke --rounds $(if $(shell command -v rg),1,0)

quality: $(STAMP)  ## The table of right and wrong verdicts over all cases and simulated incidents.
	$(BIN)/python bench/quality/score.py tests/cases tests/generated

clean:  ## Remove the virtual environment and caches.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
