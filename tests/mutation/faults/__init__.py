"""Faults that tests should find, chosen by what would hurt users, before it was decided which tests are run often."""

import json
from pathlib import Path

from . import checker, emulator, gpu_path, kernels, numpy_path, tools
from .fault import Fault

__all__ = ["AREAS", "DRAWN", "DRAWN_PATH", "Fault", "without_effect"]

DRAWN = "drawn"
"""The area of faults that `drawing.py` drew."""

DRAWN_PATH = Path(__file__).with_name("drawn.json")


def without_effect() -> dict[str, str]:
    """Why some of those that were drawn are no bugs, by their names."""
    return {one["name"]: one["no_effect"] for one in _drawn() if one.get("no_effect")}


def _drawn() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(DRAWN_PATH.read_text())["faults"] if DRAWN_PATH.exists() else []
    return found


AREAS: dict[str, tuple[Fault, ...]] = {
    "NumPy's path": numpy_path.FAULTS,
    "the GPU's host path": gpu_path.FAULTS,
    "kernels": kernels.FAULTS,
    "emulator": emulator.FAULTS,
    "checker": checker.FAULTS,
    "tools": tools.FAULTS,
    DRAWN: tuple(Fault(one["name"], one["text"], one["instead"], "") for one in _drawn() if not one.get("no_effect")),
}
"""Faults by what they are in."""
