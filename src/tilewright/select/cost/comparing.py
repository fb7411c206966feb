"""Several cost models that are compared on a problem: compiled where there is a C++ compiler (predicting.cpp)."""

import math
from array import array
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.runtime import extension
from tilewright.select.cost import prediction as cost
from tilewright.select.cost.prediction import CostModel, Form, ProblemSizes

_SOURCE = Path(__file__).with_name("predicting.cpp")
_ROOM_NUMBERS, _MODEL_NUMBERS = 13, 19


class CostModels:
    """Models of one GPU, by their numbers, made where they are first asked. What the compiled ones do not know, Python
    predicts."""

    def __init__(self, make: Callable[[int], CostModel], count: int) -> None:
        """Set up no model yet.

        Args:
            make: makes the model of a number.
            count: how many there are.
        """
        self._make, self._count = make, count
        self._models: dict[int, CostModel] = {}
        self._numbers = array("d", bytes(8 * _MODEL_NUMBERS * count))
        self._rooms: dict[Form, array[float]] = {}  # of each model two, without edges and with

    def us(self, sizes: ProblemSizes, numbers: list[int]) -> list[float]:
        """Microseconds that runs of these models take; infinite where the GPU cannot hold a block."""
        for number in numbers:
            if number not in self._models:
                model = self._models[number] = self._make(number)
                at = _MODEL_NUMBERS * number
                self._numbers[at : at + _MODEL_NUMBERS] = array("d", model.numbers)
        module = _compiled()
        if module is None:
            return [self._one(sizes, number) for number in numbers]
        _, m, n, k, batch, result_bytes, a_bytes, b_bytes, (copied_a, copied_b), form = sizes
        rooms = self._rooms.get(form)
        if rooms is None:
            rooms = self._rooms[form] = array("d", [math.nan]) * (2 * _ROOM_NUMBERS * self._count)
        found: list[float] = module.predict(
            cost.CONSTANTS, self._numbers, rooms, numbers,
            m, n, k, batch, result_bytes, a_bytes, b_bytes, copied_a, copied_b, form.item_bytes,
        )  # fmt: skip
        for place, number in enumerate(numbers):
            if found[place] != found[place]:
                found[place] = self._one(sizes, number)
                for edges, room in enumerate(self._models[number].rooms(form)):
                    if room is not None:
                        at = _ROOM_NUMBERS * (2 * number + edges)
                        rooms[at : at + _ROOM_NUMBERS] = array("d", room)
        return found

    def _one(self, sizes: ProblemSizes, number: int) -> float:
        found = self._models[number].terms(sizes)
        return math.inf if found is None else found[0]


@lru_cache
def _compiled() -> Any:
    """The compiled module; None where it is not built, and cannot be."""
    return extension.loaded("tilewright.select.cost._predicting", _SOURCE, ["-ffp-contract=off"])
