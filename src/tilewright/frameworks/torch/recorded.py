"""PyTorch as `matmul` knows it: how its tensors are read, and what multiplies where it records a call."""

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.frameworks.torch.arrays import Torch


class RecordingTorch(Torch):
    """Its operators import PyTorch, which has been imported where there is a tensor."""

    def recorder(self, grouped: bool = False) -> Callable[..., Any]:
        # These import PyTorch, which has been imported here.
        if grouped:
            from tilewright.frameworks.torch.grouped import grouped_matmul  # noqa: PLC0415

            return grouped_matmul
        from tilewright.frameworks.torch.op import matmul  # noqa: PLC0415

        return matmul

    def divide(self, call: Any, arrays: dict[str, Any], gpus: Sequence[int]) -> Any:
        from tilewright.frameworks.torch import multi_gpu  # noqa: PLC0415 - imports PyTorch, which has been imported

        return multi_gpu.multiply(call, arrays, gpus)
