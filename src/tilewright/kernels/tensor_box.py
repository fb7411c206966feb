"""TensorBox: what one load or store through a tensor map moves."""

from typing import NamedTuple

from tilewright.core.errors import ConfigError
from tilewright.kernels.support import VECTOR_BYTES

BOX_SIDE = 256
"""The most elements of a tensor box along a dimension."""
DIMENSIONS = 5
"""The most that a tensor map has."""


class TensorBox(NamedTuple):
    """The part of a matrix, or of another array, that one load or store through a tensor map moves.

    It says how that lies in shared memory, too.

    Limits: CUDA driver API, cuTensorMapEncodeTiled.

    rows, cols: its extents in elements, 1 to `BOX_SIDE` each; a row is a multiple of 16 bytes. Of a map with one
        dimension there are 0 rows.
    swizzle: 0, or 32, 64 or 128, the bytes of a row, whose 16-byte pieces are then exchanged from row to row.
    panel: where it is not 0, the box is of panels of this many columns, which lie one after the other in shared memory,
        each as a box of its own; the map's third dimension counts them.
    outer: extents along the map's further dimensions: by default one matrix of a batch.
    """

    rows: int
    cols: int
    swizzle: int = 0
    panel: int = 0
    outer: tuple[int, ...] = (1,)

    @property
    def line(self) -> int:
        """Elements of a row in shared memory."""
        return self.panel or self.cols

    @property
    def extents(self) -> tuple[int, ...]:
        """Along the map's dimensions, from that of elements next to each other on."""
        rows = (self.rows,) if self.rows else ()
        return (self.line, *rows, *((self.cols // self.panel,) if self.panel else ()), *self.outer)

    @property
    def of_array(self) -> tuple[int, ...]:
        """The extents along an array's dimensions, whose panels lie in one line."""
        return (*reversed(self.outer), *((self.rows,) if self.rows else ()), self.cols)

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the map, which the instructions name."""
        return len(self.extents)

    def check(self, item_bytes: int) -> None:
        """Raise ConfigError where the box is none that a GPU takes for elements of this size."""
        said, row = " x ".join(map(str, self.of_array)), self.line * item_bytes
        must_hold = {
            f" must have 1 to {BOX_SIDE} elements along each dimension, got {said}": (
                all(1 <= extent <= BOX_SIDE for extent in self.of_array)
            ),
            f"'s columns must be a multiple of its panel of {self.panel}, got {self.cols}": (
                self.cols % max(self.line, 1) == 0
            ),
            f"'s row must be a multiple of {VECTOR_BYTES} bytes, got {row}": row % VECTOR_BYTES == 0,
            f"'s swizzle must be 0, 32, 64 or 128 bytes, got {self.swizzle}": self.swizzle in (0, 32, 64, 128),
            f"'s row must be as long as its swizzle of {self.swizzle} bytes, got {row}": self.swizzle in (0, row),
        }
        if broken := [sentence for sentence, holds in must_hold.items() if not holds]:
            raise ConfigError(f"a tensor box{broken[0]}")
