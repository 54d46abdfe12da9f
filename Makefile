# Everything a newcomer types. Each target sets up .venv by itself when it is missing or out of date.
PYTHON  ?= $(shell command -v python3.11 || command -v python3)
DATASET ?= demo
LANDING ?=
BIN     := .venv/bin
READY   := .venv/.ready

.PHONY: setup run ui test test-kill test-properties
.DEFAULT_GOAL := run

$(READY): pyproject.toml constraints.txt
	@echo "setting up .venv (a few minutes, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $(READY)

setup: $(READY)

run: $(READY)
ifeq ($(DATASET)$(LANDING),demo)
	@$(BIN)/slicewise demo
endif
	@$(BIN)/slicewise run $(DATASET) $(if $(LANDING),--landing "$(LANDING)")

ui: $(READY)
	@exec $(BIN)/slicewise ui

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pytest

test-kill: $(READY)
	$(BIN)/pytest tests/kill --kill-all --timeout 3000

test-properties: $(READY)
	$(BIN)/pytest tests/assets/ingestion/test_properties.py --hypothesis-profile many --hypothesis-show-statistics --timeout 3000
