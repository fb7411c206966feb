"""Files of records that are committed, by the studies that read them. No other module names them."""

from collections.abc import Mapping
from pathlib import Path

FOLDER = Path("results")

RECORDS: Mapping[str, tuple[str, ...]] = {
    "clients": ("h200/clients",),
    "first_calls": ("h200/first_calls",),
    "float32_way": ("h100/float32_way",),
    "frameworks": ("h200/frameworks", "h100/frameworks_bf16"),
    "grouped": ("h200/grouped",),
    "precisions": ("h100/precisions",),
    "sustained": ("h200/sustained", "h100/sustained"),
}


def paths(study: str) -> list[Path]:
    """The files of a study, some of which there may not be."""
    return [FOLDER / f"{name}.json" for name in RECORDS[study]]
