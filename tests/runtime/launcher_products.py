"""Helpers of the launcher's tests: a plan of one launch, and products that are remembered and called."""

import threading

from exchange import Array

from tilewright.runtime.plan import Memory, Needs, Slot, Step

CONTEXT = 0xC0
MEMORY = Memory(0x1000, 1 << 20, 0x2000, 1 << 10, 0x3000, 1 << 20)
SLOTS = (
    Slot(0, "pointer", "A"),
    Slot(8, "pointer", "B", 32),
    Slot(16, "pointer", "C"),
    Slot(24, "pointer", "D"),
    Slot(32, "pointer", "bias"),
    Slot(40, "scalar", "alpha"),
    Slot(44, "scalar", "beta"),
)
STEP = Step(0xF00D, (3, 2, 1), (128, 1, 1), 4096, 0, bytes(48), (0,), SLOTS)


class Product:
    """Remembers and calls products; what it was asked for, and the results that it made."""

    def __init__(self, launcher, miss, driver):
        self.launcher, self.miss, self.driver = launcher, miss, driver
        self.asked = []
        self.made = []

    def memory(self, stream, needs):
        self.asked.append((stream, needs))
        return MEMORY

    def new(self, *shape, **keywords):
        self.made.append(Array(*shape, at=0x90000000 + (len(self.made) << 16), **keywords))
        return self.made[-1]

    def remember(self, a, b, c=None, out=None, bias=None, options=None, **plan):
        plan = {"steps": (STEP,), "needs": Needs(), "context": CONTEXT, "memory": self.memory} | plan
        plan = {"new": None if out else (self.new, (4, 5), {}), "scaled": False} | plan
        for step in plan["steps"]:
            self.driver.takes(step)
        return self.launcher.remember(a, b, c, out, bias, options, **plan)

    def __call__(self, a, b, c=None, out=None, bias=None, options=None, alpha=1.0, beta=0.0):
        return self.launcher.call(a, b, c, out, bias, alpha, beta, options)

    def misses(self, *arrays, **named):
        return self(*arrays, **named) is self.miss


def factors(**named):
    """A of 4 x 3 and B of 3 x 5."""
    return Array(4, 3, at=0x10000000, **named), Array(3, 5, at=0x20000000, **named)


def in_threads(works):
    """Run all at once, to their ends."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
