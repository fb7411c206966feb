"""Chooses portfolios: `python -m studies.unseen.covering SURVEY.jsonl` prints configs, those first that help most.

Each next config is the one that makes the fastest of all chosen as fast as possible on the surveyed problems.
"""

import math
from pathlib import Path

import numpy as np
import typer

from tilewright.kernels.kernel import Choice
from tilewright.select.model import Floats
from tilewright.tools.tune.survey import SurveyFile

FEWEST = 100
"""Problems that a config must have been timed on."""

SLOW = math.log(3)
"""Logarithm of how many times as long as the fastest a config is taken for where it was not timed, and at most."""


def cover(longer: Floats, count: int) -> list[tuple[int, float]]:
    """Columns of a problems x configs matrix of logarithms of times over the fastest, and the mean that each leaves.

    What is far from the fastest counts more: by the logarithm and twice its square.
    """
    left, found = np.full(len(longer), SLOW), list[tuple[int, float]]()
    for _ in range(min(count, longer.shape[1])):
        after = np.minimum(left[:, None], longer)
        best = int((after + 2 * after**2).mean(axis=0).argmin())
        left = after[:, best]
        found.append((best, float(np.exp(left.mean()))))
    return found


def main(survey: Path, count: int = 60) -> None:
    """Print a survey's configs, those first that help most."""
    surveyed = SurveyFile(survey).found
    choices: list[Choice] = list(dict.fromkeys(choice for one in surveyed for choice in one.us))
    us = np.array([[one.us.get(choice, math.nan) for choice in choices] for one in surveyed])
    enough = np.flatnonzero((~np.isnan(us)).sum(axis=0) >= FEWEST)
    longer = np.log(us / np.nanmin(us, axis=1, keepdims=True))[:, enough]
    for number, mean in cover(np.fmin(np.where(np.isnan(longer), SLOW, longer), SLOW), count):
        kernel, config = choices[enough[number]]
        print(f"{mean:.4f} {kernel.name} {config}")


if __name__ == "__main__":
    typer.run(main)
