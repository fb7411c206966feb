"""Functions that torch.compile traces in place of matmul() and grouped_matmul()."""

from typing import Any

from tilewright.api import front
from tilewright.api.prepared import Prepared
from tilewright.api.request import Request


def _recorded(
    a: Any, b: Any, *, alpha: Any = 1.0, beta: Any = 0.0, devices: Any = None, memory_limit: Any = None, **others: Any
) -> Any:
    """matmul, as torch.compile traces it."""
    if type(a) is Prepared or type(b) is Prepared:
        raise front.prepared_and_recorded()
    arrays = {"a": a, "b": b} | {name: others.pop(name, None) for name in ("c", "out", "bias")}
    scales = [others.pop(name, None) for name in ("scale_a", "scale_b")]
    request = Request.of("matmul", others)
    if any(scale is not None for scale in scales) or request.fast_accumulate:
        raise front.scaled_and_recorded()
    from tilewright.frameworks.torch import op  # noqa: PLC0415 - imports PyTorch, which a caller here has

    return op.matmul(arrays, request, alpha, beta, devices, memory_limit)


def _recorded_groups(*operands: Any, **arguments: Any) -> Any:
    """grouped_matmul, as torch.compile traces it."""
    if any(arguments.pop(name, None) is not None for name in ("scale_a", "scale_b")):
        raise front.scaled_groups_recorded()
    from tilewright.frameworks.torch import grouped  # noqa: PLC0415 - imports PyTorch, which is there

    return grouped.grouped_matmul(*operands, **arguments)


# To torch.compile, each is a wrapper of what it traces instead: a call of the compiled launcher would break the graph.
# The first attribute is for calls in what is compiled, the others for the function itself.
for _function, _traced in ((front.matmul, _recorded), (front.grouped_matmul, _recorded_groups)):
    vars(_function).update(
        _torchdynamo_inline=_traced, _torchdynamo_orig_callable=_traced, _torchdynamo_wrapper_id=id(_function)
    )
