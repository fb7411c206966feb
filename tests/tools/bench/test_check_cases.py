"""Which cases `check` has: every source, every value of a parameter that ships, and all that a kernel takes."""

import json
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

import tilewright
from tilewright.core.dtypes import FLOAT8, ITEM_BYTES
from tilewright.core.problem import ACTIVATIONS, Problem, Scalars
from tilewright.kernels import GROUPED, KERNELS, find
from tilewright.kernels.library import relayout
from tilewright.kernels.split import SCALED_K
from tilewright.kernels.support import Addresses
from tilewright.runtime.included import included
from tilewright.runtime.relayouts import jobs
from tilewright.tools.bench.case import VALUES, CheckCase, fitting, supported_problem
from tilewright.tools.bench.check_cases import stages
from tilewright.tools.bench.checking import outcomes
from tilewright.tools.bench.feature_cases import cover, feature_cases

PACKAGE = Path(tilewright.__file__).parent
INCLUDE = PACKAGE / "kernels" / "include"
CHECKED = (*KERNELS, *GROUPED)
BETAS = (0.0, 0.5)


@lru_cache
def cases(name):
    """Cases of a kernel that `tilewright check NAME` runs, when nobody names any."""
    kernel = find(name)
    alpha = 1.5 if "alpha" in kernel.scalars else 1.0
    scalars = [Scalars(alpha, beta) for beta in (BETAS if "beta" in kernel.scalars else BETAS[:1])]
    return [case for stage in stages(kernel, kernel.config(), scalars) for case in stage]


@lru_cache
def launches(name):
    """Kernels and configs that the cases of a kernel launch, copies among them."""
    found = set()
    for case in cases(name):
        of = jobs(find(name), find(name).config(case.config), case.problem, Addresses(), case.cached)
        found |= {(job.kernel, job.config) for job in (*of.jobs, *([of.keeping] if of.keeping else []))}
    return found


def shipped_values(kernel):
    """Values of each parameter: its default, those of presets and tuned configs, and those in the files of tables."""
    found = defaultdict(set)
    for overrides in ({}, *kernel.presets.values()):
        for name, value in kernel.config(overrides).items():
            found[name].add(value)
    for path in (PACKAGE / "select" / "tables").glob("*.json"):
        for name, parameters, *configs in json.loads(path.read_text())["kernels"]:
            if name == kernel.name:
                for config in configs:
                    for parameter, value in zip(parameters, config, strict=True):
                        found[parameter].add(value)
    return found


@pytest.mark.further
def test_every_source_is_run():
    run = {kernel.source for name in (one.name for one in CHECKED) for kernel, _ in launches(name)}
    of_complex = set((PACKAGE / "kernels/library").glob("complex_*.cu"))  # tests/api/test_complex.py runs these
    assert run | of_complex == set((PACKAGE / "kernels").glob("l*/*.cu"))
    assert _headers(run) >= {path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.cuh")} - _of_gpu()


def _headers(paths):
    return {name for path in paths for name, _ in included(path.read_text(), INCLUDE)}


def _of_gpu():
    """Headers that the emulator has stand-ins for, and what they include."""
    own = [path for path in INCLUDE.glob("ptx/*.cuh") if (PACKAGE / "emulator/include/ptx" / path.name).exists()]
    return {f"ptx/{path.name}" for path in own} | _headers(own)


@pytest.mark.first(4)
@pytest.mark.parametrize("kernel", CHECKED, ids=lambda one: one.name)
def test_every_value_of_a_parameter_that_ships_is_run(kernel):
    missing = {
        name: left
        for name, values in shipped_values(kernel).items()
        if (left := values - {case.config[name] for case in cases(kernel.name)})
    }
    assert not missing


def test_every_value_that_a_copy_is_made_with_is_run():
    run = {
        tuple(config.items()) for one in CHECKED for kernel, config in launches(one.name) if kernel is relayout.KERNEL
    }
    sides = {("SIDE", side) for side in (32, SCALED_K, 128)}
    assert {item for config in run for item in config} >= sides | {("SPLIT_PARTS", parts) for parts in (1, 2, 3)} | {
        ("SCALED", 1)
    }


@pytest.mark.parametrize("kernel", CHECKED, ids=lambda one: one.name)
def test_everything_that_a_kernel_takes_is_run(kernel):
    support, problems = kernel.support, [case.problem for case in cases(kernel.name)]
    assert {problem.dtype for problem in problems} == set(support.factors)
    assert {problem.dtype_b for problem in problems} == set(support.factors)
    assert {problem.result for problem in problems} == set(support.results)
    assert {problem.layout for problem in problems} == set(support.layouts)
    scalars = [case.scalars for case in cases(kernel.name) if case.problem.result == support.arithmetic().result]
    betas = BETAS if "beta" in kernel.scalars else BETAS[:1]
    assert {one.beta for one in scalars} == {
        fitting(Scalars(1.0, beta), support.arithmetic().result).beta for beta in betas
    }
    variants = [kernel.variant(problem, kernel.config(case.config)) for case, problem in _pairs(kernel)]
    aligned = {variant.aligned for variant in variants}
    moved = {True} if support.vectorized else set()
    assert aligned == (moved if support.aligned and moved else {False} | moved)
    if support.epilogue:
        assert {problem.epilogue.bias for problem in problems} == {None, "row", "column"}
        assert {problem.epilogue.activation for problem in problems} == {None, *ACTIVATIONS}
        forms = {(variant.edges, variant.aligned, variant.epilogue.bias) for variant in variants}
        assert forms >= {(edges, True, bias) for edges in (False, True) for bias in (None, "row", "column")}
    if support.separate_c:
        assert any(problem.addend != problem.d and case.scalars.beta for case, problem in _pairs(kernel))
    if support.batches and not support.grouped:
        batched = [problem for problem in problems if problem.batch > 1]
        assert any(problem.a.batch_stride and problem.b.batch_stride for problem in batched)
        assert not all(problem.a.batch_stride for problem in batched)
        assert not all(problem.b.batch_stride for problem in batched)
        assert not all(problem.addend.batch_stride for problem in batched) or not support.separate_c
    if set(FLOAT8) <= set(support.factors):
        kinds = {side and side.kind for problem in problems for side in problem.scaling}
        assert kinds >= ({"1x128", "128x128", "tensor"} if support.block_scales else {None, "tensor", "line"})
    values = {case.values for case in cases(kernel.name)} - {""}
    special = kernel.has_fallback or not kernel.support.multiplies_parts
    special &= not set(kernel.support.factors) <= {"int8", "uint8"}
    assert values >= ({"infinity", "NaN"} if special else set())
    assert "tiny" in values or not {"float32", "bfloat16"} & set(support.factors) or "float32" not in support.results
    assert values <= set(VALUES)


def _pairs(kernel):
    return [(case, case.problem) for case in cases(kernel.name)]


STORES = [kernel for kernel in CHECKED if kernel.stored_box]


@pytest.mark.parametrize("kernel", STORES, ids=lambda one: one.name)
def test_results_that_the_copy_engine_stores_come_with_every_epilogue(kernel):
    stored = []
    for case in cases(kernel.name):
        config, problem = kernel.config(case.config), case.problem
        variant = kernel.variant(problem, config)
        if problem.k and variant.aligned and kernel.stored_box(config, ITEM_BYTES[variant.result]):
            stored.append(case)
    assert {case.scalars.beta != 0 for case in stored} == {False, True}
    assert any(case.problem.batch > 1 for case in stored) or not kernel.support.batches
    if kernel.support.epilogue:
        assert {case.problem.epilogue.bias for case in stored} == {None, "row", "column"}
        assert {case.problem.epilogue.activation for case in stored} == {None, *ACTIVATIONS}
        assert {case.problem.result for case in stored} == {"float16", "bfloat16"}
        assert {case.problem.addend == case.problem.d for case in stored} == {False, True}


def test_a_kernel_that_ships_another_value_has_a_case_of_it():
    kernel = find("gemm_sm90")
    usual, other = kernel.config(), kernel.config({"BN": 208})
    found = feature_cases(kernel, [usual, other], [Scalars()], kernel.support.factors, ["NN"])
    assert {case.config["BN"] for case in found} == {256, 208}
    assert {case.config["BN"] for case in cases("gemm_sm90")} >= {96, 160, 224}


def test_a_cover_has_all_values_and_the_pairs_that_are_wanted():
    axes = {"a": range(4), "b": "xyz", "c": (False, True), "d": range(3)}

    def fits(row):
        return not (row.get("a") == 3 and row.get("c"))

    rows = cover(axes, fits, [("c", "b")])
    assert all(fits(row) for row in rows)
    assert {axis: {row[axis] for row in rows} for axis in axes} == {axis: set(values) for axis, values in axes.items()}
    assert {(row["b"], row["c"]) for row in rows} == {(b, c) for b in "xyz" for c in (False, True)}
    assert len(rows) <= 7  # of 72 combinations
    assert rows == cover(axes, fits, [("c", "b")])


def test_groups_of_sizes_that_are_given_have_matrices_of_their_own():
    kernel = find("grouped_sm90")
    problem = supported_problem(kernel, Problem(70, 32, 40))
    assert problem.b.batch_stride == 40 * 32
    (outcome,) = outcomes(kernel, [CheckCase(problem, Scalars(), kernel.config())])
    assert outcome.clean
