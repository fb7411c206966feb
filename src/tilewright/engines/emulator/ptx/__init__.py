"""Inline PTX on the emulator: C++ in its place, which calls the runtime's operations (PTX ISA manual).

`statements` finds the statements in a source, `parse` reads their PTX, `translate` puts all together. What an
instruction becomes is in a module by kind (`arithmetic`, `memory`, `copies`, `matrices`, `waiting`), made with a
`writer`; the functions that it calls are in `include/inline_ptx.hpp`.
"""

from tilewright.engines.emulator.ptx.translate import Translated, translated

__all__ = ["Translated", "translated"]
