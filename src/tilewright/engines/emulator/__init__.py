"""The CPU engine: compiles `.cu` files with this machine's C++ compiler and runs them, a fiber for each GPU thread."""

from tilewright.engines.emulator.engine import EmulatorEngine, EmulatorExecutable
from tilewright.engines.emulator.program import launch_source

__all__ = ["EmulatorEngine", "EmulatorExecutable", "launch_source"]
