"""Ways to compute a float32 product that a user of a GPU can choose from: PyTorch's and tilewright's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch

from studies.precisions import BASELINE, OWN
from tilewright import version
from tilewright.api.front import matmul
from tilewright.core.problem import PRECISIONS

Pairs = Sequence[tuple[Any, Any]]
"""Factors of several products: matrices of float32, as tensors."""

Round = Callable[[], Sequence[Any]]
"""Starts one product of each pair; the results."""


class Way(NamedTuple):
    """One way to compute a product."""

    name: str
    library: str
    """Name and version."""
    bind: Callable[[Pairs], Round]
    """Does all that comes before the products that are timed: compilation, and conversions that the name excludes."""
    read: Callable[[Any], Any] = lambda result: result
    """A result as a tensor."""
    wait: Callable[[], object] = lambda: None
    """Returns when what its rounds started has been handed to the GPU."""


_PYTORCH = f"PyTorch {torch.__version__}"
_OWN = f"{OWN} {version.__version__}"
_HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def of_torch() -> Iterator[Way]:
    """PyTorch's own; the first is the baseline."""
    yield of_products(BASELINE, _PYTORCH, torch.mm)
    yield of_products("PyTorch TF32", _PYTORCH, torch.mm, "tf32")
    for name, dtype in _HALVES.items():
        yield of_products(f"PyTorch {name}", _PYTORCH, partial(_cast, dtype))
        yield Way(f"PyTorch {name}, casts not timed", _PYTORCH, partial(_cast_before, dtype))


def of_tilewright() -> Iterator[Way]:
    """One for each precision of `matmul`."""
    for precision in PRECISIONS:
        yield of_products(f"{OWN} {precision}", _OWN, partial(matmul, precision=precision))


def of_products(name: str, library: str, product: Callable[[Any, Any], Any], precision: str = "ieee") -> Way:
    """A way whose products run on PyTorch's stream.

    Args:
        name, library: those of the way.
        product: of two tensors.
        precision: PyTorch's setting for products of float32, while it is called.
    """
    return Way(name, library, partial(_launched, product=product, precision=precision))


def _cast(dtype: Any, a: Any, b: Any) -> Any:
    return torch.mm(a.to(dtype), b.to(dtype)).float()


def _cast_before(dtype: Any, pairs: Pairs) -> Round:
    return _launched([(a.to(dtype), b.to(dtype)) for a, b in pairs], product=torch.mm)


def _launched(pairs: Pairs, product: Callable[[Any, Any], Any], precision: str = "ieee") -> Round:
    """Rounds of products; on a GPU a CUDA graph, so that no time is the host's."""

    def round_() -> list[Any]:
        with multiplying(precision):
            return [product(a, b) for a, b in pairs]

    round_()  # compiles, tunes, and loads what may not be loaded in a capture
    if not pairs[0][0].is_cuda:
        return round_
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = round_()

    def replay(_read: Pairs = pairs) -> list[Any]:  # a graph keeps no array alive, so its round does
        graph.replay()
        return results

    return replay


@contextmanager
def multiplying(precision: str) -> Iterator[None]:
    """In a `with` block, PyTorch multiplies float32 on a GPU in this precision of its own: 'ieee' or 'tf32'."""
    settings = torch.backends.cuda.matmul
    before, settings.fp32_precision = settings.fp32_precision, precision
    try:
        yield
    finally:
        settings.fp32_precision = before
