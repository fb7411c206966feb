"""The model that kernels are chosen by, next to a survey of an H100."""

import lzma
import math
import statistics

import numpy as np
import pytest

from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Arithmetic, Layout, Problem
from tilewright.kernels import KERNELS, find
from tilewright.kernels.kernel import Choice
from tilewright.select.model import (
    FEATURES,
    TERMS,
    Fitted,
    Grids,
    Models,
    ProblemSizes,
    lent,
    terms_of,
)  # fmt: skip
from tilewright.select.selector import compared_on
from tilewright.select.tables import store
from tilewright.select.trees import DEPTH
from tilewright.tools.tune.fitting import fit
from tilewright.tools.tune.survey import Surveyed, SurveyFile

DEVICE, CAPABILITY = "NVIDIA H100 80GB HBM3", (9, 0)
H100 = find_gpu(DEVICE, CAPABILITY)


@pytest.fixture(scope="module")
def surveys(request, tmp_path_factory):
    """Surveys of an H100, by element type."""

    def read(dtype):
        packed = request.config.rootpath / f"results/h100/unseen/survey_{dtype}.jsonl.xz"
        path = tmp_path_factory.mktemp("surveys") / "survey.jsonl"
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        return SurveyFile(path).found

    return {dtype: read(dtype) for dtype in ("bfloat16", "float32")}


def regrets(surveyed, us_of):
    """Times of what a model picks over those of the fastest, of configs of portfolios that were measured."""
    found = []
    for one in surveyed:
        us = {choice: time for choice, time in one.us.items() if choice.config in listed(choice.kernel)}
        expected = us_of(one.problem)
        known = [choice for choice in us if choice in expected]
        found.append(us[min(known, key=expected.get)] / min(us.values()))
    return found


def listed(kernel, found={}):  # noqa: B006 one for all
    if kernel not in found:
        found[kernel] = set(kernel.candidates(CAPABILITY))
    return found[kernel]


def model_of(fitted):
    """Models of all configs that a survey measured."""
    return Models(H100, fitted.configs, fitted.correction)


def expected_by(models):
    choices = [(one.kernel, one.config) for one in models.fitted]
    return lambda problem: dict(zip(choices, models.us(ProblemSizes.of(problem)).tolist(), strict=True))


@pytest.mark.parametrize(("dtype", "mean", "high"), [("bfloat16", 1.025, 1.11), ("float32", 1.025, 1.11)])
def test_models_that_ship_pick_what_is_nearly_the_fastest_on_the_survey(surveys, dtype, mean, high):
    models = compared_on(DEVICE, CAPABILITY, dtype, None, None, grouped=False).models
    found = regrets(surveys[dtype], expected_by(models))
    assert statistics.geometric_mean(found) < mean
    assert np.percentile(found, 95) < high


@pytest.mark.further
@pytest.mark.parametrize(("dtype", "mean", "high"), [("bfloat16", 1.035, 1.15), ("float32", 1.03, 1.15)])
def test_so_do_models_fitted_to_a_half_of_it_on_the_other_half(surveys, dtype, mean, high):
    half, other = surveys[dtype][::2], surveys[dtype][1::2]
    known = [
        one._replace(us={choice: us for choice, us in one.us.items() if choice.config in listed(choice.kernel)})
        for one in half
    ]
    found = regrets(other, expected_by(model_of(fit(known, H100))))
    assert statistics.geometric_mean(found) < mean
    assert np.percentile(found, 95) < high


def test_all_configs_of_portfolios_have_models_of_the_table_that_ships():
    table = next(one for one in store.shipped() if one.gpu == DEVICE)
    for dtype in table.models:
        models = table.fitted[dtype].configs
        assert {one.kernel.name for one in models} >= {
            "float32": {"split_k", "gemm_bf16x6"},
            "bfloat16": {"gemm_sm90"},
        }[dtype]
        for kernel, config, _, coefficients in models:
            assert config in listed(kernel)
            assert len(coefficients) == len(TERMS)


def test_portfolios_are_small():
    for kernel in KERNELS:
        assert len(kernel.portfolio) <= (24 if kernel.name == "gemm_sm90" else 16)
        own = kernel.candidates(CAPABILITY)
        assert len(own) == len(set(own))
        assert bool(own) == bool(kernel.portfolio or not kernel.rung)


@pytest.mark.parametrize("problem", [Problem(1000, 504, 999), Problem(16, 4096, 4096, batch=3), Problem(0, 5, 0)])
def test_one_problem_and_many_have_the_same_terms(problem):
    _, (configs, correction) = store.fitted(DEVICE, CAPABILITY, "float32")
    models, sizes = Models(H100, configs), ProblemSizes.of(problem)
    numbers, factors = (np.hstack([one, one]) for one in (sizes.numbers(H100), np.array(sizes.factors)[:, None]))
    grids = [Grids([one[:3]] * 2, H100) for one in configs]
    counts = [grid.counts(numbers) for grid in grids]
    by_terms = [np.dot(one.coefficients, terms_of(of, factors))[0] for one, of in zip(configs, counts, strict=True)]
    np.testing.assert_allclose(models.us(sizes), by_terms, rtol=1e-9)
    if not problem.k:
        return
    corrected = Models(H100, configs, correction).us(sizes)
    features = np.array([grid.features(of)[:, 0] for grid, of in zip(grids, counts, strict=True)]).T
    near = by_terms <= 1.3 * np.min(by_terms)
    factors = np.where(near, correction.factors(features), 1)
    np.testing.assert_allclose(corrected, by_terms * factors, rtol=1e-9)


def test_a_factor_is_that_of_the_leaf_which_answers_lead_to():
    _, (_, trees) = store.fitted(DEVICE, CAPABILITY, "bfloat16")
    features = np.exp2(np.random.default_rng(1).uniform(0, 13, (FEATURES, 50)))
    for column, factor in zip(features.T, trees.factors(features), strict=True):
        asked = zip(trees.features.T, trees.thresholds.T, trees.leaves, strict=True)
        found = [leaves[((column[of] > limits) << np.arange(DEPTH)).sum()] for of, limits, leaves in asked]
        assert factor == pytest.approx(math.exp(sum(found)))


def test_waves_are_counted():
    kernel = find("gemm_sm90")
    config = kernel.config({"BM": 128, "BN": 128, "CLUSTER_M": 1})
    sizes = ProblemSizes.of(Problem(128 * 133, 128, 640, Arithmetic("bfloat16")))
    terms = terms_of(Grids([(kernel, config, 1)], H100).counts(sizes.numbers(H100)), np.array(sizes.factors)[:, None])[
        :, 0
    ]
    found = dict(zip(TERMS, terms.tolist(), strict=True))
    assert (found["waves"], found["steps_of_block"], found["steps_a_row"], found["steps_a_column"]) == (2, 10, 20, 0)
    assert found["work"] == pytest.approx(1330 / 132)
    assert found["l2_bytes"] == pytest.approx(1330 * 2 * 256 * kernel.tile(config).k / 1e6)


def test_unaligned_lines_and_kept_copies_are_told_apart():
    odd = Problem(64, 64, 63, Arithmetic("bfloat16"), b=Layout("column"))
    assert ProblemSizes.of(odd).unaligned == (True, True, False)
    assert ProblemSizes.of(odd, cached="B").unaligned == (True, False, False)


def test_a_fit_finds_what_times_were_made_of():
    kernel = find("split_k")
    configs = [kernel.config(one) for one in kernel.portfolio[:2]]
    coefficients = np.zeros(len(TERMS))
    coefficients[[TERMS.index(name) for name in ("launch", "steps_a_row", "steps_a_column", "factor_bytes")]] = (
        2,
        0.1,
        0.2,
        1,
    )
    true = Models(H100, [Fitted(kernel, config, 2, tuple(coefficients)) for config in configs])
    sizes = np.exp2(np.random.default_rng(0).uniform(4, 13, (150, 3))).astype(int).tolist()
    surveyed = []
    for number, (m, n, k) in enumerate(sizes):
        problem = Problem(m, n, k, a=Layout("column" if number % 2 else "row"))
        us = zip(configs, true.us(ProblemSizes.of(problem)).tolist(), strict=True)
        surveyed.append(Surveyed(problem, {Choice(kernel, config): time for config, time in us}, {}, {}))
    found = model_of(fit(surveyed, H100))
    for problem in (Problem(100, 900, 300), Problem(4000, 64, 2000, a=Layout("column"))):
        sizes = ProblemSizes.of(problem)
        np.testing.assert_allclose(found.us(sizes), true.us(sizes), rtol=0.05)


def test_another_gpu_s_steps_take_as_much_longer_as_it_computes_slower():
    measured_on, fitted = store.fitted(DEVICE, CAPABILITY, "float32")
    slow = find_gpu("NVIDIA GeForce RTX 3090", (8, 6))
    large, split = Problem(4096, 4096, 4096), find("gemm_mma_bf16x6")
    for kernel in (split, find("split_k")):
        config = kernel.config()
        here, there = (
            Models(gpu, [lent(kernel, config, fitted.configs, measured_on, gpu)]).us(ProblemSizes.of(large))
            for gpu in (H100, slow)
        )
        assert there > (3 if kernel is split else 1) * here


def test_the_survey_s_file_says_what_was_measured(surveys):
    assert all(len(found) > 1000 for found in surveys.values())
    assert all(math.isfinite(us) for found in surveys.values() for one in found for us in one.us.values())
    sizes = {(one.problem.m, one.problem.n, one.problem.k) for one in surveys["float32"] if one.problem.batch == 1}
    assert len(sizes) > 900
