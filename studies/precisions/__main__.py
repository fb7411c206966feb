"""Compares what float32 products may be computed in: `python -m studies.precisions [--json FILE]`.

PyTorch's, tilewright's, JAX's and Triton's ways take turns in one process; JAX and Triton where they are installed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.precisions.measurements import Precisions
from tilewright.bench.environment import environment
from tilewright.engines.registry import resolve_engine
from tilewright.errors import TilewrightError
from tilewright.files import Output, check_outputs

PARTS = ("speeds", "hostile")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.precisions", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured here")
    options = parser.parse_args(arguments)
    try:
        check_outputs([Output("--json", options.json, Precisions.kind())])
        engine = resolve_engine("cuda")
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take three quarters of the memory
        from studies.precisions import measuring  # noqa: PLC0415 - imports PyTorch, which may be missing

        run = Precisions(environment={}, hostile=[], choices=[])

        def save() -> None:
            if options.json:
                run.model_copy(update={"environment": environment(engine)}).save(options.json)

        if "speeds" in (options.part or PARTS):
            ways = measuring.all_ways(_say)
            for shape in measuring.H200.shapes:
                for one in measuring.choices(measuring.H200, ways, shape, _say):
                    run.choices.append(one)
                    _say(f"{one.shape}  {one.way}: {one.tflops:,.1f} TFLOP/s, error {one.error:.2e}")
                save()
        if "hostile" in (options.part or PARTS):
            for k in measuring.H200.depths:
                for case in measuring.hostile_cases(measuring.H200, k):
                    run.hostile.append(case)
                    _say(f"{case.inputs}, k {k}  {case.way}: {case.errors}, PyTorch {case.baseline}")
                save()
    except (TilewrightError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status if isinstance(error, TilewrightError) else 1
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
