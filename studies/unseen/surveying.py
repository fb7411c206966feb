"""Survey with candidates for portfolios, next to what `matmul` picks today and to torch.mm.

python -m studies.unseen.surveying bfloat16 survey_bf16.jsonl --minutes 3.5
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.api.engines import resolve_engine
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import TilewrightError
from tilewright.core.problem import Layout, Problem
from tilewright.kernels import find
from tilewright.kernels.spec import Choice
from tilewright.runtime.plan import Pointers
from tilewright.select.selector import select
from tilewright.tools.tune import survey

NARROW = 48
"""Rows or columns of D up to which kernels that stage nothing are measured."""


class TorchReplay:
    """A graph of PyTorch's."""

    def __init__(self, torch: Any, graph: Any, stream: Any) -> None:
        self._torch, self._graph, self._stream = torch, graph, stream

    def launch(self, stream: Any) -> None:
        """Start it on the engine's stream."""
        with self._torch.cuda.stream(self._stream):
            self._graph.replay()


class TorchProducts:
    """torch.mm or torch.bmm on the operands of a survey."""

    def __init__(self, engine: Any, memory: survey.Memory, dtype: str) -> None:
        import torch  # noqa: PLC0415

        self._torch, self._dtype = torch, getattr(torch, dtype)
        self._stream = torch.cuda.ExternalStream(int(engine.stream.handle))
        self._engine = engine
        self._bases = memory._factors.pointer, memory._results.pointer
        self._factors, self._results = (
            torch.as_tensor(_Bytes(base, size), device="cuda").view(self._dtype)
            for base, size in zip(self._bases, (survey.FACTOR_BYTES, survey.RESULT_BYTES), strict=True)
        )
        assert (self._factors.data_ptr(), self._results.data_ptr()) == self._bases

    def __call__(self, problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        """A graph of this many products."""
        torch, (m, n, k, batch) = self._torch, (problem.m, problem.n, problem.k, problem.batch)
        multiply = torch.mm if batch == 1 else torch.bmm

        def view(memory: Any, base: int, pointer: int, layout: Layout, rows: int, cols: int) -> Any:
            begin = (pointer - base) // ITEM_BYTES[problem.dtype]
            flat = memory[begin : begin + batch * rows * cols]
            lines, length = layout.lines(rows, cols)
            found = flat.view(batch, lines, length)
            if layout.order == "column":
                found = found.transpose(1, 2)
            return found[0] if batch == 1 else found

        def product(index: int) -> None:
            one = sets[index % len(sets)]
            a = view(self._factors, self._bases[0], one.a, problem.a, m, k)
            b = view(self._factors, self._bases[0], one.b, problem.b, k, n)
            multiply(a, b, out=view(self._results, self._bases[1], one.d, problem.d, m, n))

        with self._engine.current, torch.cuda.stream(self._stream):
            product(0)
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(capture_error_mode="relaxed")
            for index in range(launches):
                product(index)
            graph.capture_end()
        return {multiply.__name__: TorchReplay(torch, graph, self._stream)}


class _Bytes:
    """Memory as PyTorch takes it."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3, "strides": None
        }  # fmt: skip


def main() -> int:
    """Survey one element type."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dtype")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--candidates", type=Path, default=Path(__file__).with_name("candidates.json"))
    given = parser.parse_args()
    start = time.monotonic()
    engine: Any = resolve_engine("cuda")
    capability, device = engine.capability, engine.device_name
    candidates = [
        Choice(find(name), find(name).config(values))
        for name, values in json.loads(given.candidates.read_text())[given.dtype]
    ]

    def choices(problem: Problem) -> list[Choice]:
        found = [Choice(*select(problem, capability, device))]
        for one in candidates:
            if one.kernel.name == "skinny" and min(problem.m, problem.n) > NARROW:
                continue
            if one.kernel.keeps(None) and one.kernel.refusal(problem) is None:
                found.append(one)
        return list(dict.fromkeys(found))

    memory = survey.Memory(engine, given.dtype)
    file = survey.SurveyFile(given.out)
    done = {one.problem for one in file.found}
    asked = (one for one in survey.problems(given.dtype) if one not in done)
    products: TorchProducts | None = None
    try:
        products = TorchProducts(engine, memory, given.dtype)
    except (ImportError, RuntimeError, AssertionError, TypeError) as error:
        print("no torch:", repr(error), flush=True)

    def others(problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        try:
            return products(problem, sets, launches) if products else {}
        except RuntimeError as error:
            print("torch:", error, flush=True)
            return {}

    print(f"{device}, {len(candidates)} candidates, set up in {time.monotonic() - start:.1f} s", flush=True)
    one = survey.Survey(engine, memory, choices)
    for number, found in enumerate(one.run(asked, 60 * given.minutes - (time.monotonic() - start), others)):
        file.add(found)
        if number % 10 == 0:
            best = min(found.us, key=found.us.__getitem__)
            p = found.problem
            print(
                f"{time.monotonic() - start:6.1f} s {number:4} {p.shape} {p.layout} {found.us[best]:.1f} us "
                f"{best.kernel.name} of {len(found.us)}, {found.others}, {len(one._compiled)} codes",
                flush=True,
            )
    for choice, words in list(one.refused.items())[:20]:
        print("refused", choice.kernel.name, choice.config, words[:200])
    print(f"{len(file.found)} problems in {time.monotonic() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TilewrightError as error:
        print("error:", error)
        sys.exit(1)
