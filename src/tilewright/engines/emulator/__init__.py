"""The CPU engine: compiles `.cu` files with this machine's C++ compiler and runs them, a fiber for each GPU thread."""

from tilewright.engines.emulator.compiler import CHECKED, FAST
from tilewright.engines.emulator.engine import Array, EmulatorEngine, EmulatorExecutable, LaunchFacts
from tilewright.engines.emulator.program import Observer, Watch, launch_source, load_runtime, worker_count

__all__ = [
    "CHECKED",
    "FAST",
    "Array",
    "EmulatorEngine",
    "EmulatorExecutable",
    "LaunchFacts",
    "Observer",
    "Watch",
    "launch_source",
    "load_runtime",
    "worker_count",
]
