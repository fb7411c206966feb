"""The errors that tilewright raises; each is a `TilewrightError`, and the built-in error of its kind."""

from tilewright.core.errors import *  # noqa: F403
