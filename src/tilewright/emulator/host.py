"""Facts about this machine's processor: its name, its cores, its cache."""

import os
import platform
from pathlib import Path

_DEFAULT_CACHE_BYTES = 32 * 2**20


def cpu_name() -> str:
    """The processor's product name, or at least its architecture."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def cache_bytes() -> int:
    """Size of the last-level cache; 32 MiB where the system does not say."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text.removesuffix("K")) * 1024 if text.endswith("K") else 0)
    return max(sizes, default=0) or _DEFAULT_CACHE_BYTES
