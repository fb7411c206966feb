"""How much rungs 27 to 29 err, float32 products of bfloat16 parts: on the emulator, which adds as tensor cores do."""

from itertools import cycle

import numpy as np
import pytest

from studies.precisions.adversarial import EXACT, ORDINARY
from tilewright.core.problem import Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.runtime.base import run

ENGINE = EmulatorEngine()
UNIT = 2.0**-24
ONE_PRODUCT = {"log-normal, wide", "outliers of 2^50", "sparse", "Vandermonde"}
"""Inputs of which one product makes up most of some elements: float32 rounds that, tensor cores cut off later too."""

promoting = pytest.mark.parametrize(
    ("name", "overrides"),
    [("promoted", {"BN": 64, "PROMOTE": 16}), ("promoted", {"BN": 64}), ("interleaved", {"BN": 64})],
    ids=str,
)


def product(a, b, name, overrides):
    problem = Problem(a.shape[0], b.shape[1], a.shape[1])
    result = ENGINE.upload(np.full((problem.m, problem.n), np.nan, np.float32))
    kernel = find(name)
    run(ENGINE, kernel, kernel.config(overrides), problem, ENGINE.upload(a), ENGINE.upload(b), result)
    return ENGINE.download(result).astype(np.float64)


def in_order(a, b):
    """Sums in float32, each rounded, as a thread makes them."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[1]):
        sums += a[:, i : i + 1] * b[i]
    return sums.astype(np.float64)


def errors(result, a, b):
    """The largest error of an element over (|A| @ |B|), and the relative Frobenius error."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact, size = a @ b, abs(a) @ abs(b)
    difference = abs(result - exact)
    return (difference / np.where(size, size, 1)).max(), np.linalg.norm(difference) / (np.linalg.norm(exact) or 1)


def one_sign(k):
    return ORDINARY["one sign"](np.random.default_rng(k), 64, 64, k)


@pytest.mark.first(6)
@promoting
@pytest.mark.parametrize(("inputs", "k"), [*zip(ORDINARY, cycle((64, 1024)))])  # they take turns
def test_promoted_sums_err_no_more_than_those_of_float32(name, overrides, inputs, k):
    a, b = ORDINARY[inputs](np.random.default_rng(k), 64, 64, k)
    of_elements, of_all = errors(product(a, b, name, overrides), a, b)
    usual, usual_of_all = errors(in_order(a, b), a, b)
    assert of_elements <= (2.5 if inputs in ONE_PRODUCT else 1.5) * usual
    assert of_all <= (5 if inputs in ONE_PRODUCT else 1) * max(usual_of_all, UNIT)


@pytest.mark.first(2)
@pytest.mark.parametrize("k", [5, 64, 130])
@pytest.mark.parametrize("inputs", EXACT)
@pytest.mark.parametrize("name", ["split", "promoted", "interleaved"])
def test_parts_are_exact_where_float32_is(name, inputs, k):
    a, b = EXACT[inputs](np.random.default_rng(k), 48, 40, k)
    np.testing.assert_array_equal(product(a, b, name, {"BN": 64}), a.astype(np.float64) @ b.astype(np.float64))


def test_without_promotion_long_sums_of_one_sign_drift_toward_zero():
    """A stage's sum is as exact as float32's. Of longer ones every element comes out too small, and the error grows
    with k, where that of float32 grows with its square root."""
    found, usual = {}, {}
    for k in (64, 1024, 4096):
        a, b = one_sign(k)
        result = product(a, b, "split", {"BN": 64})
        found[k], usual[k] = errors(result, a, b)[1], errors(in_order(a, b), a, b)[1]
        if k > 64:
            assert (result < a.astype(np.float64) @ b.astype(np.float64)).all()
    assert found[64] < usual[64]
    assert found[1024] > 5 * usual[1024]
    assert found[4096] > 15 * usual[4096]


@pytest.mark.further
def test_the_longer_tensor_cores_add_the_more_is_cut_off():
    a, b = one_sign(2048)
    of_all = [errors(product(a, b, "promoted", {"BN": 64, "PROMOTE": k}), a, b)[1] for k in (64, 128, 512, 2048)]
    assert of_all == sorted(of_all)
    assert of_all[-1] > 20 * of_all[0]
    assert of_all[-1] == errors(product(a, b, "split", {"BN": 64}), a, b)[1], "promoted once, at the end"


@pytest.mark.first(1)
@pytest.mark.parametrize("promote", [32, 64, 128])
def test_two_consumers_make_the_sums_of_one(promote):
    a, b = ORDINARY["normal"](np.random.default_rng(0), 150, 70, 300)
    results = [product(a, b, name, {"BN": 64, "PROMOTE": promote}) for name in ("promoted", "interleaved")]
    np.testing.assert_array_equal(*results)
