"""Inline PTX on the emulator: C++ in its place, which calls the runtime's operations (PTX ISA manual).

`statements` finds the statements in a source, `parse` reads their PTX, `translate` puts all together. Where macros make
the PTX, the source goes through the compiler's preprocessor before. What an instruction becomes is in a
module by kind (`arithmetic`, `memory`, `copies`, `matrices`, `waiting`), made with a `writer`; the functions that it
calls are in `include/inline_ptx.hpp`, and in `include/inline_ptx_halves.hpp` those of 16-bit and 8-bit floats.
"""

from tilewright.emulator.ptx.statements import behind_prelude, lines_of, needs_macros
from tilewright.emulator.ptx.translate import Translated, translated, translated_expanded

__all__ = ["Translated", "behind_prelude", "lines_of", "needs_macros", "translated", "translated_expanded"]
