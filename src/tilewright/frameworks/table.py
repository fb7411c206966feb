"""The array libraries, by the names of their modules: the one place that lists them. None of them is imported here."""

from tilewright.api.arrays.library import Library
from tilewright.frameworks.cupy import CuPy
from tilewright.frameworks.dlpack import Other
from tilewright.frameworks.jax.recorded import RecordingJax
from tilewright.frameworks.numpy import NumPy
from tilewright.frameworks.torch import traced as _traced  # noqa: F401 - says what torch.compile traces
from tilewright.frameworks.torch.recorded import RecordingTorch

_JAX = RecordingJax()

LIBRARIES: dict[str, Library] = {
    "numpy": NumPy(),
    "torch": RecordingTorch(),
    "cupy": CuPy(),
    "jax": _JAX,
    "jaxlib": _JAX,
    "": Other(),
}
"""'' is whatever else speaks DLPack or __cuda_array_interface__."""
