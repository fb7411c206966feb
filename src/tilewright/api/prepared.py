"""Prepared: a factor whose copies, as kernels want them, are kept for all products that it is part of.

The copy follows from the kernel, and the kernel from the whole problem: so `prepare` copies nothing, and the first
product that needs a copy makes it and waits for it. Kernels that split alike share one copy, for any m and any tile,
also where A and B change sides. What was seen of the elements (their range) is cached behind the copy. Float32 on CUDA
cores reads the operand itself. A plan has a slot for the copy's address, so plans of all prepared operands of a kind
are one. The selector leaves the traffic of the copy out of the cost model, and shortens measured times by the same
share. A copy is not made in a capture: a graph would make it at each replay.
"""

import threading
from collections.abc import Hashable
from typing import Any

from tilewright.runtime.base import Engine, Matrix
from tilewright.runtime.plan import CachedOperand


class Prepared:
    """A b of `matmul` whose copies are cached: see `prepare`, which makes it."""

    def __init__(self, array: Any, engine: Engine) -> None:
        self.array = array
        """Array that was prepared. It is kept alive, for kernels that read it as it is."""
        self.engine = engine
        self.key = object()
        """Key by which the compiled launcher knows it."""
        self._copies: dict[Hashable, Matrix] = {}
        self._lock = threading.Lock()

    def address(self, cached: CachedOperand, pointer: int, stream: Any) -> int:
        """Address of a copy that a plan wants cached; the first plan that wants it has it made.

        Args:
            cached: what the plan wants.
            pointer: address of the array's elements.
            stream: where these can be read; the copy is made on it, and has been made on return.

        Raises:
            LaunchError: it is to be made, and the stream is being captured.
            MemoryError: it is to be made, and the memory is full.
        """
        with self._lock:
            memory = self._copies.get(cached.copy)
            if memory is None:
                memory = self._copies[cached.copy] = self.engine.keep(cached, pointer, stream)
        return memory.pointer

    @property
    def nbytes(self) -> int:
        """Memory that the copies made so far take, in bytes."""
        with self._lock:
            return sum(memory.cols for memory in self._copies.values())

    def __repr__(self) -> str:
        return f"<Prepared: {self.nbytes} bytes of copies on {self.engine.device_name}>"
