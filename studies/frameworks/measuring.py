"""Compares tilewright in frameworks with these alone: `python -m studies.frameworks.measuring [--json FILE]`.

Each framework runs in a process of its own, since they do not share a GPU's memory well.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from studies.frameworks.comparisons import Comparison, Comparisons
from tilewright.bench.environment import environment
from tilewright.engines.registry import resolve_engine
from tilewright.errors import TilewrightError
from tilewright.files import Output, check_outputs

RUNS = {
    "torch": ("of_torch", "comparisons"),
    "torch-bfloat16": ("of_torch", "trainings_in_bf16"),
    "jax": ("of_jax", "comparisons"),
    "cupy": ("of_cupy", "comparisons"),
}
"""By what --framework calls them: the module of this package, and its function."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.frameworks.measuring", description=__doc__)
    parser.add_argument("--framework", choices=RUNS, action="append", help="default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparisons here")
    options = parser.parse_args(arguments)
    try:
        check_outputs([Output("--json", options.json, Comparisons.kind())])
        engine = resolve_engine("cuda")
        names = options.framework or list(RUNS)
        compare: Callable[[str], Iterable[Comparison]] = _compared if len(names) == 1 else _in_a_process
        found: list[Comparison] = []
        for name in names:
            for one in compare(name):
                found.append(one)
                if options.json:  # each as it comes: a run takes minutes
                    Comparisons(environment=environment(engine), comparisons=found).save(options.json)
    except (TilewrightError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status if isinstance(error, TilewrightError) else 1
    return 0


def _compared(name: str) -> Iterator[Comparison]:
    """A framework's comparisons, printed as they come."""
    module, function = RUNS[name]
    for one in getattr(importlib.import_module(f"studies.frameworks.{module}"), function)():
        us = f"{one.us.ours:,.1f} us, {one.us.baseline:,.1f} alone"
        if one.control_us:
            us += " ({:,.1f} to {:,.1f})".format(*one.control_us)
        print(f"{one.framework}  {one.kind}: {one.what}  {us}  {one.ratio:.3f}x", flush=True)
        yield one


def _in_a_process(name: str) -> Sequence[Comparison]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comparisons.json"
        command = [sys.executable, "-m", "studies.frameworks.measuring", "--framework", name, "--json", str(file)]
        settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # JAX would take three quarters of the GPU's memory
        if subprocess.run(command, env=os.environ | settings, check=False).returncode:
            raise TilewrightError(f"the comparison with {name} failed: see above")
        return Comparisons.load(file).comparisons


if __name__ == "__main__":
    sys.exit(main())
