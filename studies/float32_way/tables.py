"""Float32 products of which terms cannot hold all, over the time of the kernel for "ieee", from the record of a run."""

from pathlib import Path

from studies.float32_way.measuring import CASES, IEEE, TERMS, Float32Way, Product
from studies.markdown import table

RECORDS = Path("results/h100/float32_way.json")
"""A run of `python -m studies.float32_way.measuring`, which there may be."""


def section() -> str:
    """The table; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of such records.
    """
    return markdown(Float32Way.load(RECORDS)) if RECORDS.exists() else ""


def markdown(run: Float32Way) -> str:
    """A row for each product: microseconds, and over those of 'ieee'."""
    heads = ("m = n = k", "case", "terms hold: us", *(f"{name} / ieee: us" for name in CASES))
    rows = [
        (str(one.size), f"{one.layout} float32", f"{one.us[TERMS]:,.1f}", *(_over(one, name) for name in CASES))
        for one in run.products
    ]
    return f"On an {run.environment['gpu']['name']}:\n\n{table(heads, rows, 'll' + 'r' * (1 + len(CASES)))}"


def _over(one: Product, name: str) -> str:
    ours, ieee = round(one.us[name], 1), round(one.us[IEEE], 1)
    return f"{ours:,.1f} / {ieee:,.1f} = {ours / ieee:.2f}"
