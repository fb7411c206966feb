"""XLA programs on the host whose products go through the handler to the stand-in driver, which computes with NumPy."""

import ctypes
import struct
from pathlib import Path

import jax
from launcher_products import CONTEXT, SLOTS, STEP

from stand_ins import NumPyEngine
from tilewright.core.problem import Scalars
from tilewright.runtime import extension, xla_handler
from tilewright.runtime.plan import Needs, Pointers, Slot

STREAM = 0x5EA
NEEDS = Needs(workspace_bytes=100, counters=3, relayout_bytes=1000)
_SLOTS = (
    *(slot._replace(shift=0) for slot in SLOTS),
    Slot(48, "pointer", "workspace"),
    Slot(56, "pointer", "counters"),
    Slot(64, "pointer", "relayout"),
)
_LAUNCHED = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.POINTER(ctypes.c_char))


def build():
    """The handler, which XLA knows on the host; compiled once for several processes."""
    source, included = Path(__file__).with_name("host_handler.cpp"), xla_handler._SOURCE
    include = [f"-isystem{jax.ffi.include_dir()}", f"-I{included.parent}"]
    versions = [jax.__version__, included.read_text(encoding="utf-8")]
    options = [*include, "-O1", "-fvisibility=default"]
    handler = extension.built("tilewright.runtime._xla_handler", source, options, versions)
    target = jax.ffi.pycapsule(ctypes.CDLL(handler.__file__).on_host)
    jax.ffi.register_ffi_target(xla_handler.TARGET, target, platform="cpu")
    return handler


class LaunchedEngine(NumPyEngine):
    """An engine whose plans have one step, which the stand-in driver hands back to it."""

    context = CONTEXT

    def __init__(self, driver, needs):
        super().__init__((9, 0))
        self.needs = lambda kernel: needs
        self.counter_bytes = 4 * needs.counters
        self.driver = driver
        self.counters = []
        self.back = _LAUNCHED(self.launched)
        driver.on_launch = ctypes.cast(self.back, ctypes.c_void_p).value

    def plan(self, *arguments, **named):
        plan = super().plan(*arguments, **named)
        step = STEP._replace(function=len(self.planned), arguments=bytes(72), slots=_SLOTS)
        self.driver.takes(step)
        return plan._replace(steps=(step,))

    def launched(self, function, parameters):
        a, b, c, d, bias, alpha, beta, _, counters, _ = struct.unpack("5Q2f3Q", parameters[:72])
        if counters:
            self.counters.append(ctypes.string_at(counters, self.counter_bytes))
        self.start(self.planned[function - 1], Pointers(a, b, d, c, bias), Scalars(alpha, beta))
