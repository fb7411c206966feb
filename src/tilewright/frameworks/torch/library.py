"""The operator tilewright::matmul: its schema, its arguments, and the compiled launcher as its kernels call it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from tilewright.api import gpu as on_gpu
from tilewright.api.arrays.library import type_name
from tilewright.api.request import Request
from tilewright.core.errors import ArrayError, TilewrightError
from tilewright.frameworks.torch.arrays import check_dense

NAME = "tilewright::matmul"

LIBRARY = torch.library.Library("tilewright", "DEF")
"""Its kernels are registered as long as this lives."""

# Any layout will do for the operands, so a compiler need not copy them to another.
LIBRARY.define(
    "matmul(Tensor a, Tensor b, Tensor? bias=None, Tensor? c=None, float alpha=1.0, float beta=0.0, "
    "str? activation=None, ScalarType? out_dtype=None, str? precision=None, bool batch_invariant=False) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout),
)

matmul_op: Any = torch.ops.tilewright.matmul.default
"""activation(alpha * a @ b + beta * c + bias), as a new row-major tensor."""

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": partial(torch.nn.functional.gelu, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}
"""PyTorch's own functions for those of an epilogue."""


def register(name: str, multiply: Callable[..., Any], cast: Callable[..., Any]) -> None:
    """Register an operator's kernels for the host and for GPUs.

    Args:
        name: the operator's.
        multiply: its kernel.
        cast: calls the operator under autocast, with autocast's type and then the arguments.
    """
    for key in ("CPU", "CUDA"):
        LIBRARY.impl(name, multiply, key)
        LIBRARY.impl(name, _autocast(key, cast), f"Autocast{key}")


def _autocast(key: str, cast: Callable[..., Any]) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{key}"))
    device = key.lower()

    def multiply(*arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return cast(torch.get_autocast_dtype(device), *arguments)

    return multiply


class Arguments(NamedTuple):
    """Arguments of a call of the operator. Kernels are called without arguments at the end that have their defaults."""

    a: Any
    b: Any
    bias: Any = None
    c: Any = None
    alpha: float = 1.0
    beta: float = 0.0
    activation: str | None = None
    out_dtype: Any = None
    precision: str | None = None
    batch_invariant: bool = False

    @property
    def request(self) -> Request:
        """The options of the call."""
        return Request(*(_key(*self[6:]) or ()))


def check_tensors(a: Any, **others: Any) -> None:
    """Raise ArrayError unless a and the others, of which any but b and offsets may be None, are dense tensors that lie
    on one device.
    """
    for name, array in {"a": a, **others}.items():
        if array is None and name not in ("b", "offsets"):
            continue
        if not isinstance(array, torch.Tensor):
            raise ArrayError(f"{name} must be a tensor as the other arrays are, got {type(array).__name__}")
        if not torch.compiler.is_compiling():
            check_dense(name, array)
    check_devices(a, **others)


def check_devices(a: Any, **others: Any) -> None:
    """Raise ArrayError where a tensor lies elsewhere than a: where all of them lack elements, nobody else finds out."""
    for name, array in others.items():
        if array is not None and array.device != a.device:
            raise ArrayError(f"{name} must lie where a does: got device {array.device}, and {a.device} for a")


def call_operator(operator: Any, arrays: Mapping[str, Any], *arguments: Any) -> Any:
    """The result of an operator.

    Args:
        operator, arguments: what is called, and what with.
        arrays: the tensors among the arguments, by name.

    Raises:
        ArrayError: one is of a subclass of torch.Tensor that does not know the operator.
    """
    try:
        return operator(*arguments)
    except TilewrightError:
        raise
    except (AssertionError, NotImplementedError, TypeError) as error:
        for name, array in arrays.items():
            if array is not None and type(array) not in (torch.Tensor, torch.nn.Parameter):
                raise ArrayError(
                    f"{name} must be a tensor whose elements lie at strides in memory, or of a subclass that has this "
                    f"product with the others; got {type_name(array)}: {error}"
                ) from error
        raise


def next_to_result(bias: Any, a: Any, b: Any) -> Any:
    """A bias as it broadcasts to the result of a and b: where one of these is a vector, the result has no m or no n."""
    vectors = (a.dim() == 1) + (b.dim() == 1)
    return bias if vectors == 0 else bias.reshape(-1) if vectors == 1 else bias.reshape(())


def _key(
    activation: str | None = None, out_dtype: Any = None, precision: str | None = None, batch_invariant: bool = False
) -> tuple[Any, ...] | None:
    """Values of the Request of a call with these options; None where nothing is asked."""
    if activation is out_dtype is precision is None and not batch_invariant:
        return None
    return out_dtype, activation, precision, None, None, batch_invariant, False, None


def launched(
    a: Any, b: Any, bias: Any = None, c: Any = None, alpha: float = 1.0, beta: float = 0.0, *options: Any
) -> Any:
    """The product by the compiled launcher; None where that does not know the call, or somebody records it."""
    if on_gpu.fast is None:
        return None
    result = on_gpu.fast.call(a, b, c, None, bias, alpha, beta, _key(*options))
    return None if result is on_gpu.miss else result
