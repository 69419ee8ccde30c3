# Everything a person or a machine does with a checkout. Needs Python 3.11 or newer, and make.
#   make demo    fit, tune and evaluate a kernel model on a real table
#   make test    every check: lint, format, types, imports, docstrings, tests, doctests
#   make check   the same of what changed against main, within 90 seconds (BASE= another commit)
#   make test-minimum  the tests with the oldest releases that pyproject.toml allows
#   make test-newest   the tests with the newest releases that there are
#   make laws    the laws and the classes that they are asked of
#   make house   how the house stands against its measures, and its drawing
#   make bench   timings against peers       make docs    the manual, as HTML
#   make sweep   a wide grid and workloads drawn at random against peers (DRAW= SEED=)
#   make bench-gpu  the same as bench on a CUDA device
#   make arena   tables against boosting on ten real tables, about ten minutes
#   make arena-whole  the same on all tables, with every method: a night
#   make torture hostile calls, Ctrl-C, damaged files, killed writers, certificates: an hour (MINUTES= SEED=)
#   make lint    ruff check only             make format  rewrite the files in the house format
#   make clean   remove what the targets made

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV  := .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip --disable-pip-version-check
# Python compiles what it imports, which is a third of what pip would compile, and keeps it.
# CONSTRAINTS and UPGRADE say which releases: see test-minimum and test-newest.
INSTALL = $(PIP) install --quiet --no-compile $(addprefix --constraint ,$(CONSTRAINTS)) $(UPGRADE)
export PYTHONDONTWRITEBYTECODE :=
# By name, with this pin and alone: a looser requirement may download gigabytes. `make test TORCH=` leaves it out.
TORCH ?= torch==2.13.0
# Its interpreter runs the programs of a GPU on a CPU; torch for CUDA brings its own.
TRITON ?= triton==3.9.0
TORCH_STAMP = $(VENV)/.torch-$(shell printf '%s' '$(TORCH)' | tr -c 'A-Za-z0-9.' '_')
JOBS  ?= 2
MINUTES ?= 60
SEED  ?= 0
DRAW  ?= 60
CODE  := src tests examples benchmarks docs tools
DIRS   = $(wildcard $(CODE))

.PHONY: help demo test test-minimum test-newest check laws house bench sweep bench-gpu arena arena-whole torture docs lint format format-check types imports torch triton pytest clean
.NOTPARALLEL:

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

# ---- environments: one stamp for each set of packages ----
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "make: mercer needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.package: pyproject.toml $(CONSTRAINTS) $(VENV)/.made
	$(INSTALL) --editable .
	@touch $@

# pip learned --group (PEP 735) in 25.1; a bare Python 3.11 comes with 23.2
$(VENV)/.pip: $(VENV)/.made
	$(INSTALL) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.test: $(VENV)/.package $(VENV)/.pip
	$(INSTALL) --group test
	@touch $@

# Not a stamp itself: an install that failed is tried again next time, another TORCH replaces the
# one before, and an empty one removes what this target installed.
torch: $(VENV)/.test
	@if [ -z '$(TORCH)' ]; then \
		if ls $(VENV)/.torch-* >/dev/null 2>&1; then \
			$(PIP) uninstall --quiet --yes torch && rm -f $(VENV)/.torch-*; fi; \
		echo "torch left out, as asked: the tests that need it are skipped"; \
	elif [ -e '$(TORCH_STAMP)' ]; then :; \
	elif rm -f $(VENV)/.torch-*; $(INSTALL) '$(TORCH)'; then \
		touch '$(TORCH_STAMP)'; echo "$(TORCH) installed"; \
	else echo "$(TORCH) could not be installed: the tests that need it are skipped"; fi

# With torch, and only then. Not a stamp either.
triton: torch
	@if ! $(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -c 'import triton' 2>/dev/null; then :; \
	elif $(INSTALL) '$(TRITON)'; then echo "$(TRITON) installed"; \
	else echo "$(TRITON) could not be installed: the test of its programs is skipped"; fi

$(VENV)/.docs: $(VENV)/.package $(VENV)/.pip
	$(INSTALL) --group docs
	@touch $@

$(VENV)/.bench: $(VENV)/.package $(VENV)/.pip
	$(INSTALL) --group bench
	@touch $@

# xRFM needs torch: that of the tests, or a looser requirement may download gigabytes.
$(VENV)/.arena: pyproject.toml $(VENV)/.package $(VENV)/.pip | torch
	$(INSTALL) --group arena
	@touch $@

# ---- work ----
demo: $(VENV)/.package
	@$(BIN)/python examples/demo.py

# The types take half a minute of one core: they are checked beside what comes after.
test: lint format-check imports
	@$(MAKE) --no-print-directory types >$(VENV)/types.log 2>&1 & types=$$!; \
	$(MAKE) --no-print-directory pytest; tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.log; test $$tests -eq 0 -a $$types -eq 0

lint: $(VENV)/.test
	$(BIN)/ruff check $(DIRS)

format-check: $(VENV)/.test
	$(BIN)/ruff format --check $(DIRS)

format: $(VENV)/.test
	$(BIN)/ruff check --fix $(DIRS)
	$(BIN)/ruff format $(DIRS)

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

# One BLAS thread a worker: several workers with several threads each wait for one another.
pytest: $(VENV)/.test torch triton
	@$(BIN)/python -c 'import torch; print("torch", torch.__version__)' 2>/dev/null \
		|| echo "torch is not installed: the tests that need it are skipped"
	SCIPY_ARRAY_API=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Each in an environment of its own. The oldest releases have no wheels for the newest Python, so
# Python 3.11 is taken where there is one. The oldest torch may come with CUDA, gigabytes of it:
# `make test-minimum TORCH=` leaves it out.
MINIMUM := constraints/minimum.txt
given = $(if $(findstring command,$(origin $1)),$($1),$2)
test-minimum:
	@$(MAKE) --no-print-directory pytest VENV=.venv-minimum CONSTRAINTS=$(MINIMUM) \
		PYTHON='$(call given,PYTHON,$(shell command -v python3.11 || echo $(PYTHON)))' \
		TORCH='$(call given,TORCH,$(shell grep '^torch==' $(MINIMUM)))'

# What is newest changes: it is looked for every time. torch is that of `make test`.
test-newest:
	@rm -f .venv-newest/.package .venv-newest/.test
	@$(MAKE) --no-print-directory pytest VENV=.venv-newest UPGRADE='--upgrade --upgrade-strategy eager'

# Not torch: it is there after the first `make test`, and the tests that need it skip without it.
check: $(VENV)/.test
	@$(BIN)/python tools/check.py --jobs $(JOBS) $(if $(BASE),--base $(BASE))

laws: $(VENV)/.test
	@$(BIN)/python tools/laws.py

house: $(VENV)/.test
	@$(BIN)/python tools/house.py
	@$(BIN)/python tools/house.py --svg docs/_static/house.svg

bench: $(VENV)/.bench
	@if $(BIN)/python -c 'import torch' 2>/dev/null; then $(INSTALL) --group bench-torch; \
	else echo "torch is not installed (make torch): GPyTorch's row is left out"; fi
	$(BIN)/python benchmarks/run.py

# Nothing beside it: it times calls of microseconds.
sweep: $(VENV)/.bench
	$(BIN)/python benchmarks/sweep.py --draw $(DRAW) --seed $(SEED)
	$(BIN)/python benchmarks/sweep.py --auto 56 --seed $(SEED)
	$(BIN)/python benchmarks/crowded.py

bench-gpu: $(VENV)/.package torch
	$(BIN)/python benchmarks/gpu.py $(ROWS)

# A second call does what is missing in the file of results.
ARENA = $(BIN)/python -m benchmarks.arena
arena: $(VENV)/.arena
	$(ARENA) --small
	$(ARENA) --small --summary benchmarks/arena/results/small

arena-whole: $(VENV)/.arena
	$(ARENA) --all
	$(ARENA) --all --summary benchmarks/arena/results/all

# Nothing beside it: Ctrl-C must be heard within a second.
torture: $(VENV)/.test
	$(BIN)/python -m tools.torture --minutes $(MINUTES) --seed $(SEED)

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .venv-minimum .venv-newest demo-output docs/_build docs/api/generated build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
