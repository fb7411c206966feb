"""matmul, plan, prepare, grouped_matmul: from arrays to a plan and its launch."""

from collections.abc import Callable, Mapping
from typing import Any

libraries: Callable[[], Mapping[str, Any]] = dict
"""Gives each array library (`arrays.library.Library`) by the name of its module, that of all others by ''. They stand
above, and the root hands them down."""
