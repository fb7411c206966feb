"""PyTorch: enable() lets models multiply by tilewright; matmul() is one operator where PyTorch records it (op.py)."""

from tilewright.torch import grouped as _grouped  # noqa: F401 - defines an operator
from tilewright.torch import op as _op  # noqa: F401 - the same
from tilewright.torch.routing import disable, enable, report

__all__ = ["disable", "enable", "report"]
