# `make help` lists the targets. Each begins with `setup`, which is free the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock names everything, so nothing is left to resolve.
PIP := $(BIN)/pip install -qq --disable-pip-version-check --no-deps
STAMP := $(VENV)/.installed-$(shell cksum < requirements.lock | cut -d' ' -f1)

.DEFAULT_GOAL := help
.PHONY: help setup demo up test check format lock

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: $(STAMP) ## Make .venv from requirements.lock (done once)

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gemhooks needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@$(PIP) --no-compile --require-hashes -r requirements.lock
	@$(PIP) --no-build-isolation -e .
	@touch $@

demo: setup ## See it work: simulator, receiver, queue and workers on this machine (KEEP=1 leaves it running)
	@$(BIN)/gemhooks demo $(if $(KEEP),--keep)

up: setup ## Run receiver and workers here, as the environment says (GEMHOOKS_BROKER_URL, GEMINI_API_KEY ...)
	@$(BIN)/gemhooks up

test: setup ## Run the whole suite on real, private services (ARGS="-k rule" for a part)
	@$(BIN)/python -m pytest $(ARGS)

check: setup ## Format, lint, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## Write requirements.lock anew from pyproject.toml
	@$(PYTHON) -m venv .work/lock && .work/lock/bin/pip install --quiet uv
	.work/lock/bin/uv pip compile --universal --generate-hashes --no-header --no-annotate --upgrade \
	  --python-version 3.11 --all-extras --group dev pyproject.toml -o requirements.lock -q
