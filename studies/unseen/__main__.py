"""Judges what is picked for shapes drawn at random, on a GPU: `python -m studies.unseen --seed 1 --rows bfloat16`.

`--picks FILE` writes what this revision picks instead, on no GPU; `--before FILE` measures next to such a file's picks.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.unseen.drawing import SHAPES, Drawn, draw
from studies.unseen.picks import ROWS, picks

SURVEYED = Path(__file__).with_name("surveyed.json")
"""m, n and k of the single products that models were fitted to: no shape is drawn near one."""

H100 = (9, 0), "NVIDIA H100 80GB HBM3"


def main() -> int:
    """Judge, or write picks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--shapes", type=int, default=SHAPES, help="of each kind")
    parser.add_argument("--rows", nargs="+", default=ROWS[:3], choices=ROWS)
    parser.add_argument("--minutes", type=float, default=8.0, help="in all; rows have equal parts of what is left")
    parser.add_argument("--no-portfolios", action="store_true", help="do not tell the regret")
    parser.add_argument("--before", type=Path, help="what another revision picks")
    parser.add_argument("--picks", type=Path, help="write what this revision picks, and end")
    parser.add_argument("--device", default=H100[1], help="whose picks are written")
    parser.add_argument("--out", type=Path, help="where the times go")
    given = parser.parse_args()
    shapes = draw(given.seed, map(tuple, json.loads(SURVEYED.read_text())), given.shapes)
    if given.picks:
        given.picks.write_text(json.dumps(picks(shapes, given.rows, H100[0], given.device)))
    else:
        _judge(shapes, given)
    return 0


def _judge(shapes: Sequence[Drawn], given: argparse.Namespace) -> None:
    from studies.unseen import judging  # noqa: PLC0415 not of an older revision
    from tilewright.api.engines import resolve_engine  # noqa: PLC0415

    start = time.monotonic()
    engine: Any = resolve_engine("cuda")
    before = json.loads(given.before.read_text()) if given.before else {}
    print(f"{engine.device_name}, seed {given.seed}, {len(shapes)} shapes", flush=True)
    judged: dict[str, list[judging.Judged]] = {}
    for number, row in enumerate(given.rows):
        seconds = (60 * given.minutes - (time.monotonic() - start)) / (len(given.rows) - number)
        judged[row] = judging.judge(engine, shapes, row, before, not given.no_portfolios, seconds)
        judging.report(judged[row], row)
        print(f"{len(judged[row])} of {len(shapes)} shapes, {time.monotonic() - start:.0f} s", flush=True)
        if given.out:
            judging.write(given.out, judged)


if __name__ == "__main__":
    raise SystemExit(main())
