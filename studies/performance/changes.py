"""Speedups by changes of kernels: runs before and after each change, every cell next to cuBLAS in its own run."""

from collections.abc import Iterable, Iterator

from studies.results import change
from studies.templates import block
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.report.ratios import ratio

CHANGES = (
    ("maps of 128 bytes", "h200_maps_of_256_bytes", "h200_maps_of_128_bytes"),
    ("loads by an elected thread", "h100_loads_by_one_thread", "h100_loads_by_an_elected_thread"),
    ("steps in a loop", "h200_steps_unrolled", "h200_steps_in_a_loop"),
    ("biases ahead", "h200_biases_at_the_store", "h200_biases_ahead"),
    ("first tile ahead", "h100_first_tile_after_barriers", "h100_first_tile_ahead"),
    ("clusters without fences", "h100_clusters_with_fences", "h100_clusters_without_fences"),
    ("rows of whole pieces", "h100_pieces_with_checks", "h100_whole_pieces"),
    ("clusters of eight", "h100_clusters_of_four", "h100_clusters_of_eight"),
    ("activations in turns", "h100_gelu_together", "h100_gelu_in_turns"),
    ("blocks of 32 columns", "h100_blocks_of_64_columns", "h100_blocks_of_32_columns"),
    ("parts in eights", "h100_whole_parts", "h100_parts_in_eights"),
    ("shorter activations", "h100_longer_activations", "h100_shorter_activations"),
    ("stores by the copy engine", "h100_stored_by_threads", "h100_stored_by_the_copy_engine"),
)
"""Names of changes, and the runs of the same problems without each and with it."""

_SPEEDUPS = 2
"""Problems of each change that gained most and are shown."""


def section() -> str:
    """The table of all changes.

    Raises:
        RecordsError: a file is none of records, or a ratio is of another run.
    """
    found = [row for name, *files in CHANGES for row in _rows(name, *(Run.load(change(file)) for file in files))]
    return block("performance/page.md.j2", "changes", changes=found)


def _rows(name: str, before: Run, after: Run) -> Iterator[tuple[str, str, Record, Record]]:
    """Problems of both runs that gained most, and the one that lost most, each by the fastest config of its run."""
    earlier, later = _fastest(before.records), _fastest(after.records)
    pairs = [(earlier[problem], later[problem]) for problem in earlier if problem in later]
    pairs.sort(key=lambda pair: (ratio(pair[1]) or 0.0) - (ratio(pair[0]) or 0.0), reverse=True)
    facts = after.environment
    measured = f"{facts['gpu']['name'].removeprefix('NVIDIA ')}, {facts['date'][:10]}, {facts['revision']}"
    for pair in (*pairs[:_SPEEDUPS], *pairs[max(_SPEEDUPS, len(pairs) - 1) :]):
        yield name, measured, *pair


def _fastest(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """By problem, the fastest record that has a baseline."""
    having = [record for record in records if ratio(record)]
    return {(one.shape, one.case): one for one in sorted(having, key=lambda one: one.gflops)}
