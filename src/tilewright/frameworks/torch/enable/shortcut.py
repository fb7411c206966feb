"""The shortcut (shortcut.cpp): products whose way was decided go it without Python.

It is built at first use with this machine's C++ compiler, against the headers of the PyTorch that is installed. Until
that is done, and where there is no compiler, calls take Python's way.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from tilewright.runtime import extension

_SOURCE = Path(__file__).with_suffix(".cpp")

ADDENDS = {None: 0, "c": 1, "bias": 2}
"""By what an addend is to `matmul`."""


class Shortcut(Protocol):
    """Path that calls of some operators take without Python. May be used from several threads."""

    def install(self) -> None:
        """Take calls before the kernels that are registered now, which get those that are not decided yet."""

    def remove(self) -> None:
        """Stop, before those kernels are removed."""

    def counts(self) -> list[tuple[Any, bool, int]]:
        """Decisions, whether the launcher computed calls or PyTorch, and how many since this was asked last."""


class ShortcutModule(Protocol):
    """Module that shortcut.cpp compiles to."""

    def Shortcut(self, key: str, kernels: Mapping[str, Any]) -> Shortcut:  # noqa: N802 - it is a class
        """A shortcut for calls of some operators.

        Args:
            key: of the dispatcher, as 'CUDA'.
            kernels: PyTorch's own, to which calls are left, by operators of aten, as 'mm' and 'mm.out'; a dict.

        Raises:
            RuntimeError: there is no such operator, or one of these is no kernel.
        """

    def leave(self, decision: Any) -> None:
        """Have calls like the one that this thread is in left to PyTorch from now on; its kernel says so last."""

    def take(self, decision: Any, addend: int, asks: bool) -> None:
        """Have calls like the one that this thread is in launched from now on, by what `launch_by` was told.

        Args:
            decision: what counts, and says how: see `decisions.Decision.asked`.
            addend: what is added to the product: `ADDENDS`.
            asks: whether each call asks decision.asked() for the launcher's options, False of which leaves it to
                PyTorch; else they have none.
        """

    def launch_by(self, launcher: Any, api: Any, tensor_type: type) -> None:
        """Say how calls are launched.

        Args:
            launcher, api: a launcher, and its module's `API`.
            tensor_type: PyTorch's tensors.
        """


@lru_cache
def load() -> ShortcutModule | None:
    """The module; None where it cannot be built: no C++ compiler, or no headers of Python or PyTorch."""
    folder = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    libraries = f"-L{folder / 'lib'}", "-Wl,--no-as-needed", "-lc10", "-ltorch_cpu"
    options = ("-std=c++20", abi, f"-isystem{folder / 'include'}", *libraries)
    try:
        built = extension.built("tilewright.frameworks.torch.enable._shortcut", _SOURCE, options, [torch.__version__])
        return cast(ShortcutModule, built)
    except extension.NOT_BUILT:
        return None
