# `make bench` and `make test` do all the set-up they need; `make docs` redraws tables and plots from results/,
# and the worklog from what the kernels do on the emulator.
# PYTHON names the interpreter that the virtual environment is made with: 3.10 or newer.

PYTHON ?= python3
BIN := .venv/bin
comma := ,
# cuBLAS (420 MB) is only of use with a GPU.
EXTRAS := $(if $(wildcard /dev/nvidiactl /dev/dxg),dev$(comma)cublas,dev)

.PHONY: bench test lint docs clean

bench: .venv/installed
	$(BIN)/tilewright bench
	@echo 'More: $(BIN)/tilewright --help. After "source $(BIN)/activate" its name is tilewright alone.'

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: .venv/installed
	$(BIN)/python -m tilewright.report.worklog
	$(BIN)/python -m tilewright.report.performance
	$(BIN)/python -m tilewright.report.tuning
	$(BIN)/python -m tilewright.report.frameworks
	$(BIN)/python -m tilewright.report.scaling

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tilewright needs Python 3.10 or newer, $(PYTHON) is older: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@# The usual build of PyTorch brings gigabytes of CUDA, so only a build for the CPU is installed, if one is offered.
	@build=$$($(BIN)/python -m pip index versions torch 2>/dev/null | grep -o '[0-9][0-9.]*+cpu' | head -n 1); \
	if [ -n "$$build" ]; then \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==$$build" --editable '.[torch]'; \
	else \
	    echo 'no CPU build of PyTorch is offered: tests that need PyTorch are skipped'; \
	fi
	touch $@

clean:
	rm -rf .venv
