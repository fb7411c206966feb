"""Speeds and errors of ways to compute a float32 product, and the JSON file that holds them."""

from tilewright.bench.records import Facts, RunFile


class Choice(Facts):
    """One way on normal inputs, timed in turns with all others of its run and problem."""

    way: str
    library: str
    """Name and version."""
    m: int
    n: int
    k: int
    us: float
    """Microseconds a product, all that it takes from float32 operands included, but where the way says otherwise."""
    error: float
    """Relative Frobenius error against float64."""
    baseline_us: float
    """The same two of PyTorch's float32."""
    baseline_error: float

    @property
    def shape(self) -> str:
        """The sizes as text: 'MxNxK'."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def tflops(self) -> float:
        """10^12 operations a second, 2*m*n*k a product."""
        return self._tflops(self.us)

    @property
    def baseline_tflops(self) -> float:
        """The same of the baseline."""
        return self._tflops(self.baseline_us)

    def _tflops(self, us: float) -> float:
        return 2 * self.m * self.n * self.k / us / 1e6


class Errors(Facts):
    """Of one result; None where it holds NaN or infinity."""

    element: float | None
    """The largest error of an element over that of |A| @ |B|."""
    frobenius: float | None
    """Relative Frobenius error."""


class HostileCase(Facts):
    """Errors of one way on inputs of one class, and of PyTorch's float32 on the same."""

    inputs: str
    """The class, as in `hostile.py`."""
    way: str
    m: int
    n: int
    k: int
    errors: Errors
    baseline: Errors


class Precisions(RunFile):
    """What one run measured."""

    hostile: list[HostileCase]
    choices: list[Choice]
