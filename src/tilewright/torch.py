"""PyTorch: enable() lets models multiply by tilewright; matmul() is one operator where PyTorch records it."""

from tilewright.frameworks.torch import grouped as _grouped  # noqa: F401 - defines an operator
from tilewright.frameworks.torch import op as _op  # noqa: F401 - the same
from tilewright.frameworks.torch.enable.routing import disable, enable, report, warm

__all__ = ["disable", "enable", "report", "warm"]
