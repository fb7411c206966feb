"""The survey of a GPU: its portfolios are measured for some minutes, and its models are written to the user's table.

What was measured lies next to the table, a file for each element type, so that the next survey goes on from there.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.core.gpus import find_gpu
from tilewright.select.tables import store
from tilewright.tools.tune.fitting import fit
from tilewright.tools.tune.survey import Survey, SurveyFile, SurveyMemory, in_portfolios, problems

TYPES = ("float32", "bfloat16")
"""Element types that are surveyed where none is named; float16 has bfloat16's models."""

SURVEYED = (*TYPES, "int8")
"""Element types that may be surveyed; uint8 has int8's models."""

Report = Callable[[str, float], None]
"""Called with what is being done, and the share of the time that is over."""


def survey(
    engine: Any, minutes: float, report: Report = lambda what, share: None, types: Sequence[str] = TYPES
) -> tuple[dict[str, int], Path | None]:
    """Survey a GPU for some minutes, compiling included, and write its models to the user's table.

    Interrupted, what has been measured counts, and the interrupt goes on once the table is written.

    Args:
        engine: a GPU.
        minutes: how long it takes, the same time for each type.
        report: called as it goes on.
        types: element types of A and B, of `SURVEYED`.

    Returns:
        how many problems of each type are measured in all, and the table; None where they are too few for any model.
    """
    start, seconds, interrupt, counts, path = time.monotonic(), 60 * minutes, None, dict[str, int](), None
    choices = partial(in_portfolios, capability=engine.capability)
    for number, dtype in enumerate(types):
        end = start + seconds * (number + 1) / len(types)
        file = SurveyFile(file_of(engine.device_name, dtype))
        try:
            if interrupt is None:
                known = {one.problem for one in file.found}
                asked = (one for one in problems(dtype) if one not in known)
                for found in Survey(engine, SurveyMemory(engine, dtype), choices).run(asked, end - time.monotonic()):
                    file.add(found)
                    report(f"{dtype}: {len(file.found)} problems", min((time.monotonic() - start) / seconds, 1.0))
        except KeyboardInterrupt as error:
            interrupt = error
        counts[dtype] = len(file.found)
        report(f"{dtype}: fitting", (end - start) / seconds)
        models = fit(file.found, find_gpu(engine.device_name, engine.capability))
        if models.configs:
            path = store.save(engine.device_name, engine.capability, (), {dtype: models})
    if interrupt is not None:
        raise interrupt
    return counts, path


def file_of(device: str, dtype: str) -> Path:
    """The file of what was measured on a GPU with factors of a type."""
    folder = store.user_folder() / "surveys"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{re.sub(r'[^a-z0-9]+', '_', device.lower()).strip('_')}_{dtype}.jsonl"
