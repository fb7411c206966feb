"""Old words of parameters, kernels, options and recorded fields: each is understood, with a warning, until 0.3.

`docs/words.md` says what the words mean.
"""

import sys
import warnings
from collections.abc import Container, Mapping
from pathlib import Path
from types import FrameType
from typing import TypeVar

OLD_WORDS: Mapping[str, str] = {
    "SLICES": "K_SLICES",
    "BLOCKS": "MIN_BLOCKS",
    "PLACES": "A_BUFFERS",
    "BAND": "GROUP_M",
    "CLUSTER": "CLUSTER_M",
    "STORED": "TMA_STORE_STAGES",
    "TERMS": "SPLIT_PARTS",
    "MADE": "PARTIAL_BUFFERS",
    "HOLDS_A": "A_IN_REGISTERS",
    "EXCHANGED": "SWAP_AB",
    "thin_bf16x6": "small_m_bf16x6",
    "thin_fp16x3": "small_m_fp16x3",
    "apart_us": "after_other_work_us",
    "--vast": "--huge",
}
"""By an old word, the word of now: users' configs, commands, tables, journals and records may have either."""

_PACKAGE = str(Path(__file__).parents[1])

_Value = TypeVar("_Value")


def today(word: str, known: Container[str]) -> str:
    """The word of now that an old one stands for, if that is known; else the word as it is."""
    new = OLD_WORDS.get(word)
    if new is None or word in known or new not in known:
        return word
    message = f"{word} is called {new} now: the old word is understood until 0.3"
    warnings.warn(message, DeprecationWarning, stacklevel=_callers_level())
    return new


def keys_today(facts: Mapping[str, _Value], known: Container[str]) -> dict[str, _Value]:
    """A mapping with the words of now for its keys."""
    return {today(key, known): value for key, value in facts.items()}


def _callers_level() -> int:
    """The frame that called the outermost function of this package, as `warnings.warn` counts them."""
    files: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return 1 + max(number for number, file in enumerate(files, 1) if file.startswith(_PACKAGE))
