# Every target makes .venv when it is missing, so on a fresh machine `make train` alone trains and
# `make test` alone passes the tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal
DOCS := .docsenv
CHECKS := .checksenv
PAGE := seqattn/report/web

# Tests start hundreds of processes. Without kept bytecode each compiles the package anew, in a second.
unexport PYTHONDONTWRITEBYTECODE

# With SUITE=few, only a sample of the slow tests runs (tests/sampling.py). `make test-all` runs all.
SUITE ?= few
export SUITE

.DEFAULT_GOAL := help
.PHONY: help install train docs page page-check package test test-all test-long test-browser test-many test-export test-gpu test-walks coverage contract project-files lint types format smoke bench bench-gpu figures figures-check torture ci clean

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# uv installs in a fraction of the time of pip. `make UV= install` uses pip although there is uv.
UV ?= $(shell command -v uv)
ifeq ($(UV),)
MAKE_VENV = $(PYTHON) -m venv $(VENV)
# Python compiles a module at its first import. pip would compile all modules, most of which are never used.
INSTALL = $(BIN)/python -m pip install --no-compile
INSTALLER = pip, because there is no uv
else
MAKE_VENV = $(UV) venv --seed --allow-existing --python $(PYTHON) $(VENV)
INSTALL = $(UV) pip install --python $(BIN)/python
INSTALLER = uv
endif

define create_environment
@echo "1/3 Create the environment $(VENV)."
@$(MAKE_VENV)
@echo "2/3 Install $(1) with $(INSTALLER). The packages, such as"
@echo "    torch, are large, so the first time takes $(2) or more."
@$(INSTALL) --constraint constraints.txt --editable '$(3)'
@echo "3/3 Write the schema of configs, with which an editor completes and checks them."
@$(BIN)/seqattn config schema --output configs/seqattn.schema.json
@touch $@
endef

$(READY): pyproject.toml constraints.txt
	$(call create_environment,seqattn and what its development needs,a minute,.[dev])

# On a fresh machine, `make train` installs only what training and the report page need.
$(VENV)/.train: pyproject.toml constraints.txt
	$(call create_environment,seqattn,half a minute,.[report])

install: $(READY)  ## Make .venv with seqattn and what development needs

train: $(or $(wildcard $(READY)),$(VENV)/.train)  ## Train the default config (configs/squares.yaml) into outputs/squares
	$(BIN)/seqattn train configs/squares.yaml --overwrite

test: $(READY)  ## Run the tests, with a sample of the slow ones and a process a core
	$(PYTEST) --ignore tests/browser --ignore tests/many --ignore tests/export --ignore tests/gpu --ignore tests/walks

test-long: $(READY)  ## Run the tests of test and test-walks in one session
	$(PYTEST) --ignore tests/browser --ignore tests/many --ignore tests/export --ignore tests/gpu

test-many: $(READY)  ## Test trainings over several processes
	$(BIN)/python -m pytest tests/many -n auto --maxprocesses 2

test-browser: $(READY) docs  ## Test the pages of seqattn report and the site of make docs in browsers, and install them if needed
	sh scripts/browser.sh
	$(PYTEST) tests/browser

test-export: $(READY)  ## Test that exported graphs say what their models say
	$(PYTEST) tests/export

test-gpu: $(READY)  ## Test training on a GPU, on a machine that has one
	$(PYTEST) tests/gpu

test-walks: $(READY)  ## Test every config key and pair of commands in turn
	$(PYTEST) tests/walks

test-all: $(READY)  ## Run every test, without a sample: more than half an hour
	$(MAKE) SUITE=all test-long test-browser test-many test-export

coverage contract test-walks: export SUITE := all
coverage: $(READY)  ## Run the tests of test, and list the lines and branches that no test reaches
	$(PYTEST) --ignore tests/browser --ignore tests/many --ignore tests/export --ignore tests/gpu --ignore tests/walks \
	  --cov --cov-report term --cov-report html:build/coverage

contract: $(READY)  ## Hold every combination of the config to the contract, not only a sample
	CONTRACT=all $(BIN)/python -m pytest tests/project/test_contract.py

lint: $(READY)  ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_names.py

types: $(READY)  ## Check types
	$(BIN)/mypy

format: $(READY)  ## Mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

smoke: $(READY)  ## Run train, predict and plot-attention once, small, in a temporary folder
	sh scripts/smoke.sh $(BIN)/seqattn

bench: $(READY)  ## Time the training loop against a notebook's loop
	$(BIN)/python scripts/bench.py

bench-gpu: $(READY)  ## Time training steps on a GPU against plain torch
	$(BIN)/python scripts/bench_gpu.py

figures: $(READY)  ## Make the measured figures of README.md and docs/ anew: half an hour
	$(BIN)/python scripts/figures.py

figures-check: $(READY)  ## Hold the pages against the recorded figures, and list those older than their code
	$(BIN)/python scripts/figures.py --check

$(DOCS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" > $(DOCS)/docs.txt
	$(DOCS)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --requirement $(DOCS)/docs.txt
	touch $@

$(CHECKS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CHECKS)
	$(CHECKS)/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['checks'], sep='\n')" > $(CHECKS)/checks.txt
	$(CHECKS)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --requirement $(CHECKS)/checks.txt
	touch $@

project-files: $(CHECKS)/.ready package  ## Check the workflows, templates, metadata, citation, Dockerfile and package; the tools go into .checksenv
	sh scripts/check_project_files.sh $(CHECKS)/bin

docs: $(DOCS)/.ready  ## Build the documentation as a site, build/site/index.html; its tools go into .docsenv
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --quiet --strict

$(PAGE)/node_modules/.package-lock.json: $(PAGE)/package-lock.json
	cd $(PAGE) && npm ci --no-audit --no-fund
	touch $@

page: $(PAGE)/node_modules/.package-lock.json  ## Check, test and bundle the script of the report page (needs Node and npm)
	cd $(PAGE) && npm run --silent verify && npm run --silent build

page-check: $(PAGE)/node_modules/.package-lock.json  ## Check and test the script of the report page, and compare it with the committed bundle
	cd $(PAGE) && npm run --silent verify && npm run --silent check

package: $(READY)  ## Build the wheel and the source distribution into build/package, and check their files
	$(BIN)/python scripts/check_package.py

torture: $(READY)  ## Bring about every fault as often as docs/reliability.md says, and write it
	$(BIN)/python -m tests.faults.torture

ci:  ## What CI runs
	bash .ci/run

clean:  ## Remove .venv, caches and outputs
	rm -rf $(VENV) $(DOCS) $(CHECKS) $(PAGE)/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	rm -f configs/seqattn.schema.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find outputs -mindepth 1 ! -name .gitkeep -delete
