"""JAX's ways to compute a float32 product."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import torch

from studies.precisions.ways import Pairs, Round, Way

_NAME = f"JAX {jax.__version__}"
_PRESETS = jax.lax.DotAlgorithmPreset


def ways() -> Iterator[Way]:
    """In float32, and by the algorithms that make it of products of narrower types."""
    started: list[Any] = []
    wait = partial(jax.block_until_ready, started)
    for name, precision in {
        "JAX highest": "highest",
        "JAX BF16_BF16_F32_X6": _PRESETS.BF16_BF16_F32_X6,
        "JAX TF32_TF32_F32_X3": _PRESETS.TF32_TF32_F32_X3,
    }.items():
        yield Way(name, _NAME, partial(_compiled, precision=precision, started=started), torch.from_dlpack, wait)


def _compiled(pairs: Pairs, precision: Any, started: list[Any]) -> Round:
    """Rounds that are one program of XLA, since a call of JAX costs the host more than a small product takes."""
    arrays = [(jax.dlpack.from_dlpack(a), jax.dlpack.from_dlpack(b)) for a, b in pairs]
    program = jax.jit(lambda factors: [jax.lax.dot(a, b, precision=precision) for a, b in factors])
    jax.block_until_ready(program(arrays))

    def round_() -> list[Any]:
        started[:] = program(arrays)
        return started

    return round_
