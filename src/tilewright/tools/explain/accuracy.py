"""How much products in tensor cores err, predicted from how tensor cores and threads add them up.

Sums are random walks: elements are independent and of both signs, as random operands are. Tensor cores cut off what
does not fit into a sum, so that each addition makes it smaller, in the mean by 3/8 of its last place: of the two bits
that they keep besides, any value is as likely. An addition by threads rounds, by a half at most either way.

A cut stays with the sum. So what all cuts of one walk come to depends on how long each of its steps was part of the
sum: the error is the sum of its steps, each weighted with the number of additions since.

The tensor cores are Hopper's: Ampere's, which add 8 k at a time, err by more in as much of k. On the emulator
predictions are within 20% from k = 1024 on. Shorter sums err by a fifth more than predicted up to half
less: their products have few bits, not all of which are lost.
"""

import math
from collections.abc import Sequence

from tilewright.core.hardware import ceil_div
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel

UNIT = 2.0**-23
"""Unit of float32's last place, next to the power of two below a number."""
LEFT = {
    "tf32": 2.0**-11 * math.sqrt(2 / 7),
    "bf16x3": math.sqrt(3) * 2.0**-16 / 7,
    "fp16x3": math.sqrt(3) * 2.0**-22 / 7,
}
"""By what factors are rounded to or made of: the relative error of a product of operands that are uniformly random in
[-1, 1), where sums are exact (`bench.verify.limit` says why)."""

_POWER = 1 / (2 * math.log(2))
"""Mean of the power of two below a number, as a share of the number."""
_POWER_SQUARE = 3 / (8 * math.log(2))
"""Mean square of that share."""
_CUT = 3 / 8
"""Mean of the part that is cut off, in units of the last place."""
_CUT_SQUARE = 7 / 32
"""Mean square of the part that is cut off."""
_ROUNDED_SQUARE = 1 / 12
_DEPTH, _TF32_DEPTH = 16, 8
"""Elements along k in one addition of tensor cores: of 16-bit elements, and of TF32."""


def predicted_error(kernel: Kernel, config: Config, k: int) -> float | None:
    """Relative Frobenius error of a product of random operands; None of kernels that do not say how they add.

    Before results are rounded to a type other than float32. A sum that several blocks share is taken for one.
    """
    _, promote, separate = kernel.sums(config)
    if promote is None or k == 0:
        return None
    begun_anew = min(promote, k)
    less = kernel.parts * (kernel.parts + 1) // 2 - 1  # products of an element besides the largest
    step = kernel.tile(config).k
    depth = _TF32_DEPTH if kernel.support.precision == "tf32" else _DEPTH
    squares = _cuts(_additions(begun_anew, step, depth, 0 if separate else less))
    squares += _roundings(ceil_div(k, begun_anew) + (ceil_div(k, step) if separate else 0))
    return math.hypot(UNIT * math.sqrt(squares), LEFT.get(kernel.support.precision or "", 0.0))


def error_in_order(k: int) -> float:
    """Relative Frobenius error of float32 multiply-adds, one after the other."""
    return UNIT * math.sqrt(_roundings(k))


def _additions(k: int, step: int, depth: int, less: int) -> Sequence[bool]:
    """Additions of a sum over k, `depth` of k each: whether each is of the largest products, which come last in a
    step."""
    found: list[bool] = []
    for first in range(0, k, step):
        count = ceil_div(min(step, k - first), depth)
        found += [False] * (less * count) + [True] * count
    return found


def _cuts(additions: Sequence[bool]) -> float:
    """Mean square of what is cut off of a walk whose steps these are, in units of the root mean square of its end."""
    steps = sum(additions)
    weights, parts, made = 0, 0, 0
    for number, largest in enumerate(additions):
        made += largest
        parts += made
        weights += (len(additions) - number) ** 2 if largest else 0
    mean_square = (_CUT * _POWER) ** 2
    return (mean_square * weights + (_CUT_SQUARE * _POWER_SQUARE - mean_square) * parts) / steps


def _roundings(count: int) -> float:
    """Mean square, in units, of the error by rounding in a walk of this many steps, the first of which is exact."""
    return _ROUNDED_SQUARE * _POWER_SQUARE * (count * (count + 1) / 2 - 1) / count
