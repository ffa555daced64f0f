# make demo: train and translate. make test: run the tests. Each sets up what it needs first.

# The Python that makes the environment: PYTHON=..., or the first of these that fits.
ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3.12 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null \
	&& { echo $$p; exit; }; done; echo python3)
endif
ATTENTION ?= mtsa
JOBS ?= 2
ARGS ?=
VENV := .venv/bin
SETUP = $(PYTHON) -c '' 2>/dev/null || { echo "make: no Python runs under the name '$(PYTHON)':\
 install Python 3.11 or 3.12, or name one, as in: make env PYTHON=python3.11" >&2; exit 1; }; \
 $(PYTHON) scripts/setup_env.py $(if $(TORCH),--torch '$(TORCH)')

.PHONY: help env demo test matrix check format docs clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10
	@echo
	@echo "ATTENTION=mtsa|multihead  what the demo trains      ARGS='...'  more for the demo or pytest"
	@echo "PYTHON=python3.12         what .venv is made with   TORCH=...   another torch, as for pip"

env: ## make .venv and install everything into it
	@$(SETUP) base dev docs

demo: ## train a small translation model on real text, translate, show the result
	@$(SETUP) base
	@$(VENV)/python scripts/demo.py --attention $(ATTENTION) $(ARGS)

test: ## run the whole test suite
	@$(SETUP) base dev docs
	@OMP_NUM_THREADS=1 $(VENV)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

matrix: ## the tests on every Python from 3.10 to 3.13 that is found
	@$(SETUP) base dev
	$(VENV)/nox $(ARGS)

check: ## formatter, linter, type checker
	@$(SETUP) base dev
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy

format: ## let the formatter and the linter mend what they can
	@$(SETUP) base dev
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

docs: ## build the documentation's site in site/
	@$(SETUP) base docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --strict --quiet

clean: ## remove .venv, the demo's output, the site and all caches
	rm -rf .venv .nox .wheels demo site build dist *.egg-info distributions/*/build
	rm -rf distributions/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
