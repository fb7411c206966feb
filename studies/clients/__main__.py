"""Runs programs with each way to multiply: `python -m studies.clients EXAMPLES [--json FILE]`.

EXAMPLES is the folder examples/ of a checkout, which has the solvers.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.clients.outcomes import Clients, Outcome
from tilewright.bench.environment import environment
from tilewright.engines.registry import resolve_engine
from tilewright.errors import TilewrightError
from tilewright.files import Output, check_outputs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.clients", description=__doc__)
    parser.add_argument("examples", type=Path, metavar="EXAMPLES", help="the folder with torch_cholesky.py")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes here")
    options = parser.parse_args(arguments)
    try:
        check_outputs([Output("--json", options.json, Clients.kind())])
        engine = resolve_engine("cuda")
        from studies.clients import measuring  # noqa: PLC0415 - imports PyTorch, which may be missing

        found: list[Outcome] = []
        for one in measuring.outcomes(options.examples):
            found.append(one)
            steps = "" if one.steps is None else f", {one.steps} steps"
            print(f"{one.client} {one.size}  {one.way}: {one.seconds:.4f} s{steps}, error {one.error:.2e}", flush=True)
            if options.json:
                Clients(environment=environment(engine), outcomes=found).save(options.json)
    except (TilewrightError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status if isinstance(error, TilewrightError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
