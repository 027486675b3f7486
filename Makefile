# Everything runs in .venv, which the first target that needs it makes. PYTHON=... chooses the interpreter.
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo test test-older cluster lint bench clean
.DELETE_ON_ERROR:

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## start the server with example policies and show what it does to two pods
	@$(BIN)/spark-webhook demo

test: $(VENV)/.installed-dev ## all tests; the first time, it builds a control plane (Go) and takes half an hour
	$(BIN)/python -m tests.cluster.tools
	$(BIN)/python -m pytest -n auto

test-older: $(VENV)/.installed-dev ## the most important tests on the oldest Kubernetes that is supported
	$(BIN)/python -m tests.cluster.tools
	KUBERNETES_MINOR=1.34 $(BIN)/python -m pytest tests/cluster -m older

cluster: $(VENV)/.installed-dev ## a control plane on this machine with the webhook in it, to play with
	@$(BIN)/python -m tests.cluster

lint: $(VENV)/.installed-dev ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.installed-dev ## admissions a second, against a bare echo server (CHECK=1: fails below the targets)
	$(BIN)/python -m tests.bench $(if $(CHECK),--check)

clean: ## remove what make and the tools made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml .ci/venv
	@.ci/venv $(VENV)
	@echo "installing into $(VENV)" >&2
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing the development tools into $(VENV)" >&2
	@$(PIP) --editable '.[dev]'
	@touch $@
