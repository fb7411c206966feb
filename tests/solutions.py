"""Solutions of exercises, as pages of docs/worklog/solutions have them: words, changes to a source, their effects.

```diff ... ```            changes to a source, or to a header that it includes
`check` says: race.        kinds of findings of what was printed since the last such sentence, or `nothing found`
`--config TM=1,TN=4`       the config of all that; without changes, the default one is that before
| at 256x256x256 | before | after |    columns between these: after earlier changes
"""

import re
from pathlib import Path
from typing import NamedTuple

from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Scalars
from tilewright.emulator.check import steps_in_flight
from tilewright.kernels.support import Variant
from tilewright.runtime import nvrtc
from tilewright.tools.bench.case import CheckCase, problem_of
from tilewright.tools.bench.checking import outcomes
from tilewright.tools.explain.explanation import explain
from tilewright.tools.explain.traffic import count

SOLUTIONS = Path(__file__).parents[1] / "docs/worklog/solutions"


class Said(NamedTuple):
    """Changes, (name of a file, hunks) each, and the findings that `check` has in them."""

    changes: list
    findings: str


class Solution(NamedTuple):
    """Contents of a page: changes with findings, and counters before and after."""

    config: str
    steps: list
    shape: str
    rows: list
    """Name of a counter, before, after each of the last changes."""


def changes(text):
    """The changes that a text prints, as (name of the file, hunks), in their order."""
    blocks = re.findall(r"^```diff\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    parts = [re.split(r"^@@.*\n", block, flags=re.MULTILINE) for block in blocks]
    return [(re.search(r"^\+\+\+ (?:b/)?(.+)", head, re.MULTILINE)[1], hunks) for head, *hunks in parts]


def applied(text, hunks):
    """A source with changes, the lines of each of which are there once."""
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(old) == 1, hunk
        text = text.replace(old, new)
    return text


def read(page):
    """The solution of a page."""
    text = page.read_text()
    config = re.search(r"`--config (\S+)`", text)
    pieces = re.split(r"`check` says: (.+)\.\n", text)
    steps = [Said(changes(words), said) for words, said in zip(pieces[::2], pieces[1::2], strict=False)]
    table = re.search(r"^\| at (\S+) \| before \|.* after \|\n.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2].splitlines()] if table else []
    return Solution(config[1] if config else "", steps, table[1] if table else "", rows)


def problem(kernel, shape):
    """A problem of these sizes, in an order that the kernel supports."""
    layouts = kernel.support.layouts
    return problem_of(kernel, shape, "", "NN" if "NN" in layouts else layouts[0])


def checked(kernel, config, shape):
    """Findings and the error of a check."""
    (found,) = outcomes(kernel, [CheckCase(problem(kernel, shape), Scalars(1.5, 0.5), config)])
    kinds = {finding.kind for finding in found.findings} | (set() if found.right else {"wrong result"})
    return kinds, found.error


GPU = "GPU's "
GROUPS = {
    f"{memory} {kind} {what}": (f"{memory}_{kind}", what.replace("conflicts", "bank_conflicts"))
    for memory, kind, what in (
        *(("global", kind, "sectors") for kind in ("load", "store")),
        *(("shared", kind, what) for kind in ("load", "store") for what in ("requests", "wavefronts", "conflicts")),
    )
}


def counted(name, kernel, config, shape):
    """A counter as pages print it: of accesses as the source makes them, or as the GPU's compiler does."""
    if name == "registers":
        return nvrtc.compile(kernel, config, Variant(False, True), "sm_90").report.registers
    if name == "error":
        return f"{checked(kernel, config, shape)[1]:.1e}"
    gpus, of = name.startswith(GPU), problem(kernel, shape)
    of = explain(kernel, config, of, gpu_named("H200")).traffic if gpus else count(kernel, config, of)
    if name == "bytes by tensor maps":
        return f"{of.tile_bytes:,}"
    if name == "FFMAs a wavefront":
        return f"{of.operations.ffma / 32 / of.shared_wavefronts:.1f}"
    group, field = GROUPS[name.removeprefix(GPU)]
    return f"{getattr(of.groups[group], field):,}"


def shapes(kernel, config):
    """Two problems: tiles divide the first, whose blocks compute several where they share tiles; each stage of a
    pipeline is filled again in both."""
    tile, stages = kernel.tile(config), steps_in_flight(kernel, config)
    m, n = (5 * tile.m, 2 * tile.n) if kernel.schedule else (2 * tile.m, tile.n)
    deep = max((stages + 1) * tile.k, 64)
    return (m, n, deep), (tile.m + 3, tile.n + 5, max(2 * stages * tile.k + 5, 45))
