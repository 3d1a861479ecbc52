PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Half of the tests wait, for models or for processes: two at a time take little longer than one.
WORKERS ?= 2
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint docs clean

demo: $(INSTALLED)
	@$(BIN)/volery demo

test: $(INSTALLED)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/generate_config.py --check
	$(BIN)/python scripts/generate_dashboards.py --check
	$(BIN)/python scripts/image_lock.py --check

docs: $(INSTALLED)
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/generate_config.py
	$(BIN)/python scripts/generate_dashboards.py

clean:
	rm -rf $(VENV)

$(INSTALLED): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
