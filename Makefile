# `make demo` and `make test` do all set-up on a bare machine with Python 3.10 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check test-slow bench bench-overhead bench-findings bench-verify bench-delivered bench-tune clean

demo: $(VENV)/.has-examples
	$(BIN)/upshift demo

# Two at once where no time is judged, then what needs the machine for itself.
test: $(VENV)/.has-test
	$(BIN)/python -m pytest -n 2 -m "not slow and not timed"
	$(BIN)/python -m pytest -m "timed and not slow"

test-slow: $(VENV)/.has-test
	$(BIN)/python -m pytest -m slow

check: $(VENV)/.has-test $(VENV)/.has-check
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

# All that is measured about speed: about two hours.
bench: bench-overhead bench-delivered bench-tune

bench-overhead: $(VENV)/.has-bench
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/overhead.py

bench-findings: $(VENV)/.has-test
	$(BIN)/python benchmarks/findings.py

bench-verify: $(VENV)/.has-test
	$(BIN)/python benchmarks/verify.py

bench-delivered: $(VENV)/.has-examples
	$(BIN)/python benchmarks/delivered.py

bench-tune: $(VENV)/.has-bench
	$(BIN)/python benchmarks/tune.py

clean:
	rm -rf $(VENV) dist build

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: torch alone for the demo, the frameworks only for the tests.
$(VENV)/.has-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	touch $@
