# `make help` lists the targets. Each begins with `setup`, which is free the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock names everything, so nothing is left to resolve.
PIP := $(BIN)/pip install -qq --disable-pip-version-check --no-deps
STAMP := $(VENV)/.installed-$(shell cksum < requirements.lock | cut -d' ' -f1)
DEV_STAMP := $(STAMP)-$(shell cksum < requirements-dev.lock | cut -d' ' -f1)
COMPILE = .work/lock/bin/uv pip compile --universal --generate-hashes --no-header --no-annotate \
  --python-version 3.11 --all-extras -q pyproject.toml

.DEFAULT_GOAL := help
# Where it is set, each process that a test or the demo starts would compile all of it anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test-compose generated pictures docs release bench-batch bench-peers bench-receiver bench-worker help setup setup-dev demo up test crash-matrix check format lock chaos

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: $(STAMP) ## Make .venv with what runs gemhooks (done once)

setup-dev: $(DEV_STAMP) ## The same with what tests and builds it (done once)

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gemhooks needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@$(PIP) --no-compile --require-hashes -r requirements.lock
	@$(PIP) --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): $(STAMP)
	@echo "Adding what tests and checks need (once) ..."
	@$(PIP) --no-compile --require-hashes -r requirements-dev.lock
	@touch $@

demo: setup ## See it work: simulator, receiver, queue and workers on this machine (KEEP=1 leaves it running)
	@$(BIN)/gemhooks demo $(if $(KEEP),--keep)

up: setup ## Run receiver, workers and reconciler here, as the environment says (GEMHOOKS_BROKER_URL, GEMINI_API_KEY ...)
	@$(BIN)/gemhooks up

# A file's tests share its fixtures. How many processes: tests/conftest.py.
test: setup-dev ## Run the whole suite on real, private services (ARGS="-k rule" for a part, "-n 0" for one process)
	@$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

generated: setup-dev ## Write anew what is made from code: dashboards, docs/reference
	@$(BIN)/python -m deploy.grafana.generate
	@$(BIN)/python -m deploy.kubernetes.rules
	@$(BIN)/python -m deploy.reference
	@$(BIN)/python -m handbook

test-compose: setup-dev ## Run docker-compose.yml on a real Docker engine, and take it away again
	@$(BIN)/python -m deploy.compose.try_it $(ARGS)

pictures: setup-dev ## Draw the dashboards of docs/images anew, from five minutes of real data
	@GEMHOOKS_TEST_PICTURES=docs/images GEMHOOKS_TEST_PICTURES_SECONDS=300 \
	  $(BIN)/python -m pytest tests/deploy/test_live.py --timeout 900 -k pictures

.PHONY: fuzz
fuzz: setup-dev ## Try the properties with other examples, and more of them, than the suite does
	@GEMHOOKS_TEST_HYPOTHESIS=fuzz $(BIN)/python -m pytest -m hypothesis $(ARGS)

crash-matrix: setup-dev ## Kill a worker at every step of a function call, on SQLite and PostgreSQL
	@GEMHOOKS_TEST_CRASHES=all $(BIN)/python -m pytest tests/workers/crashes --timeout 900 $(ARGS)

chaos: setup-dev ## The whole system under load, hurt in every way we know, and counted (SECONDS=600 SEED=7)
	@$(BIN)/python -m tests.chaos $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: test-node
test-node: setup-dev .work/node/.installed ## Run the consumer in Node on a real RabbitMQ (needs node and npm)
	@$(BIN)/python -m pytest tests/examples/node_amqplib.py $(ARGS)

.work/node/.installed: examples/node/package.json
	@mkdir -p .work/node && cp $< .work/node/
	@cd .work/node && npm install --no-package-lock --no-audit --no-fund --silent
	@touch $@

.PHONY: test-asyncapi
test-asyncapi: setup-dev .work/asyncapi/.installed ## Check docs/reference/asyncapi.yaml by AsyncAPI's own JSON Schema (needs npm)
	@$(BIN)/python -m pytest tests/docs/asyncapi_official.py $(ARGS)

.work/asyncapi/.installed: tests/docs/asyncapi/package.json
	@mkdir -p .work/asyncapi && cp $< .work/asyncapi/
	@cd .work/asyncapi && npm install --no-package-lock --no-audit --no-fund --silent
	@touch $@

.PHONY: test-rabbitmq4 test-cluster
test-rabbitmq4: setup-dev ## Run the tests of queues on RabbitMQ 4.0, Debian 13's, in a folder of the project (root)
	@GEMHOOKS_TEST_RABBITMQ_FROM=trixie $(BIN)/python -m pytest tests/gemhooks/queues \
	  tests/gemhooks/cli/test_dlq.py tests/integration/test_end_to_end.py tests/chaos $(ARGS)

test-cluster: setup-dev ## Kill the leader of each queue of three RabbitMQ nodes, under load (SUITE=trixie: on RabbitMQ 4.0)
	@GEMHOOKS_TEST_RABBITMQ_FROM=$(SUITE) $(BIN)/python -m pytest tests/cluster/leaders.py $(ARGS)

check: setup-dev ## Format, lint, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: generated ## Write docs/reference/ from the code, then build the pages in site/, every link checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

release: setup-dev ## Build and try wheel, sdist and image context of the tagged commit, into dist/ (uploads nothing)
	@$(BIN)/python -m release

format: setup-dev ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-receiver: setup-dev bench-peers ## Compare the receiver with its peers, side by side (ARGS="--repeat 5 --connections 32")
	@$(BIN)/python -m bench.receiver $(ARGS)

bench-batch: setup-dev ## Fetch 2 GB of a batch's results beside curl and Google's client, and be killed (ARGS="--repeat 5")
	@$(BIN)/python -m bench.batch $(ARGS)

bench-worker: setup-dev bench-peers ## Compare a consumer with its peers, side by side (ARGS="--repeat 5 --events 10000")
	@$(BIN)/python -m bench.worker $(ARGS)

.PHONY: bench-ledger
bench-ledger: setup-dev ## What an event costs the ledger, from a thousand rows to a million (ARGS="--rows 100000")
	@$(BIN)/python -m bench.ledger $(ARGS)

.PHONY: bench-scale
bench-scale: setup-dev ## How far one of each part goes: the table of docs/scale.md (ARGS="--write" puts it there)
	@$(BIN)/python -m bench.scale $(ARGS)

# In folders of their own: the peers' packages never meet ours.
bench-peers: .work/bench/.installed .work/bench-node/.installed ## Install what the benchmarks compare with

.work/bench/.installed: bench/requirements.txt
	@$(PYTHON) -m venv .work/bench && .work/bench/bin/pip install -qq --disable-pip-version-check -r $<
	@touch $@

.work/bench-node/.installed: bench/peers/package.json
	@mkdir -p .work/bench-node && cp $< .work/bench-node/
	@cd .work/bench-node && npm install --no-package-lock --no-audit --no-fund --silent
	@touch $@

lock: ## Write both locks anew from pyproject.toml: what runs, and what tests it
	@$(PYTHON) -m venv .work/lock && .work/lock/bin/pip install --quiet uv
	$(COMPILE) --group build --upgrade -o requirements.lock
	$(COMPILE) --group dev --upgrade -c requirements.lock -o requirements-dev.lock
