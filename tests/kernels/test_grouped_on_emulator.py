"""grouped_sm90, run by the emulator on drawn groups, against float64; and what the checker finds in it."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from library_cases import place
from tilewright.core.dtypes import FLOAT8
from tilewright.core.errors import ConfigError, LaunchError, ProblemError
from tilewright.core.problem import UNSCALED, Arithmetic, Layout, Problem, Scale, Scaling
from tilewright.emulator.checker import Checker, arrays_of
from tilewright.emulator.compiler import CHECKED
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.program import Watch
from tilewright.kernels import find
from tilewright.kernels.library.grouped_sm90 import FP8, KERNEL, most_tiles
from tilewright.kernels.support import Addresses
from tilewright.runtime.plan import Pointers

ENGINE = EmulatorEngine()
UNTOUCHED = -77.0
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

CONFIGS = (
    {"BM": 64, "BN": 32, "STAGES": 2, "PINGPONG": 1, "GROUP_M": 2},
    {"BM": 128, "BN": 32, "STAGES": 2, "CLUSTER_M": 2, "CLUSTER_N": 2, "GROUP_M": 1},
    {"BM": 256, "BN": 40, "STAGES": 3},
)


class Kind(NamedTuple):
    """Properties of a grouped product that the code is compiled for."""

    layout: str
    factors: str
    result: str
    gap: int
    """Elements between rows (or columns) of all matrices, besides what aligns them."""


KINDS = (
    Kind("NN", "bfloat16", "bfloat16", 0),
    Kind("NT", "bfloat16", "float32", 3),
    Kind("TN", "float16", "float16", 8),
)


class Groups(NamedTuple):
    """Rows of each group, and of none; columns; and what is added along."""

    rows: tuple[int, ...]
    rest: int
    n: int
    k: int


GAPPED = Groups((5, 70, 0, 60), 4, 40, 72)


def line(order, rows, cols, gap):
    length = cols if order == "row" else rows
    return Layout(order, -(-max(length, 1) // 8) * 8 + gap)


def run(config, kind, groups, engine=ENGINE, kernel=KERNEL, a=None, ends=None):
    """D, with what its rows held before where no group has them, once nothing between its rows has changed."""
    total, count = sum(groups.rows) + groups.rest, len(groups.rows)
    random = np.random.default_rng(total)
    if a is None:
        a = random.standard_normal((total, groups.k)).astype(kind.factors)
        a[total - groups.rest :] = np.nan
    b = random.standard_normal((count, groups.k, groups.n)).astype(kind.factors)
    orders = ["row" if order == "N" else "column" for order in kind.layout]
    of_a, of_b = (line(order, *x.shape[-2:], kind.gap) for order, x in zip(orders, (a, b), strict=True))
    of_d = line("row", total, groups.n, kind.gap)
    scaling, scales = UNSCALED, {}
    if kind.factors in FLOAT8:
        scaling = Scaling(Scale("line", 1), Scale("line", 1, groups.n))
        ones = {"scale_a": np.ones((1, total), np.float32), "scale_b": np.ones((1, count * groups.n), np.float32)}
        scales = {name: engine.upload(values) for name, values in ones.items()}
    arithmetic = Arithmetic(kind.factors, kind.result)
    problem = Problem(total, groups.n, groups.k, arithmetic, count, of_a, of_b, of_d, grouped=True, scaling=scaling)
    before = np.full((1, total, groups.n), UNTOUCHED, kind.result)
    in_a, in_b = place(engine, a[None], problem.a, 0), place(engine, b, problem.b, 0)
    in_d = place(engine, before, problem.d, 0, between=UNTOUCHED)
    offsets = engine.upload(np.array([np.cumsum(groups.rows) if ends is None else ends], np.int32))
    pointers = Pointers(in_a.pointer, in_b.pointer, in_d.pointer, offsets=offsets.pointer)
    pointers = pointers._replace(**{name: one.pointer for name, one in scales.items()})
    plan = engine.plan(kernel, kernel.config(config), problem, Addresses(*pointers[:3]))
    engine.start(plan, pointers)
    whole = engine.download(in_d.owner)[0].reshape(total, in_d.ld)
    assert (whole[:, groups.n :] == UNTOUCHED).all(), "what lies between the rows of D has changed"
    return a, b, whole[:, : groups.n]


def check(config, kind, groups, **named):
    """Raise AssertionError unless each group is multiplied with its matrix, and all other rows are left."""
    a, b, result = run(config, kind, groups, **named)
    begin = 0
    for matrix, rows in zip(b, groups.rows, strict=True):
        end = begin + rows
        factors = a[begin:end].astype("f8"), matrix.astype("f8")
        exact, size = factors[0] @ factors[1], abs(factors[0]) @ abs(factors[1])
        allowed = UNIT["float32"] * (groups.k + 8) * size + UNIT[kind.result] * abs(exact) + 1e-7
        assert (abs(result[begin:end].astype("f8") - exact) <= allowed).all(), f"rows {begin} to {end}"
        begin = end
    assert (result[begin:] == UNTOUCHED).all(), "rows that belong to no group have changed"


SIZES = st.sampled_from((0, 0, 1, 5, 63, 64, 65, 130))
GROUPS = st.builds(
    Groups,
    st.one_of(st.lists(SIZES, min_size=1, max_size=7), st.lists(st.integers(0, 2), min_size=33, max_size=70)).map(
        tuple
    ),
    st.sampled_from((0, 1, 70)),
    st.sampled_from((1, 31, 32, 41, 72)),
    st.sampled_from((0, 1, 8, 64, 72, 130)),
)

# Each config with two kinds, and each kind with two configs.
FORMS = [(config, KINDS[(number + turn) % 3]) for number, config in enumerate(CONFIGS) for turn in (0, 1)]


@pytest.mark.first(1)
@pytest.mark.parametrize(("config", "kind"), FORMS, ids=str)
@example(groups=Groups((0, 0, 700, 0, 3), 1, 72, 72))
@example(groups=Groups((3, 0, 6), 1, 9, 72))
@example(groups=Groups((1,) * 32 + (0,) * 40 + (65, 2), 70, 41, 8))
@given(groups=GROUPS)
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_drawn_groups_are_right(config, kind, groups):
    check(config, kind, groups)


def test_nan_stays_in_its_row():
    """Tiles load rows of the next group, and of none."""
    a = np.ones((139, 72), np.float16)
    a[[4, 75]], a[135:] = np.nan, np.inf
    _, _, result = run(CONFIGS[0], KINDS[2], GAPPED, a=a)
    assert np.flatnonzero(np.isnan(result).any(axis=1)).tolist() == [4, 75]
    assert np.isfinite(np.delete(result, [4, 75], axis=0)).all()


@pytest.mark.parametrize("ends", [(-5, 900, 2**31 - 1, 7), (60, 20, -1, 134), (2**31 - 1,) * 4], ids=str)
def test_offsets_that_make_no_sense_touch_nothing_else(ends):
    """The gaps between rows are looked at by `run`, and what lies outside by the checker."""
    assert not [one for one in found(CONFIGS[0], KINDS[2], GAPPED, ends=ends) if "outside" in str(one)]


def found(config, kind, groups, kernel=KERNEL, **named):
    """Findings of the checker, in the order of the threads' numbers and backwards."""
    checkers = []
    for schedule in (0, 1):

        def watch(facts, schedule=schedule):
            executable = facts.executable
            checkers.append(Checker(executable.program.library, arrays_of(facts), executable.kernel.overlaps))
            return Watch(checkers[-1], schedule=schedule)

        run(config, kind, groups, EmulatorEngine(CHECKED, watch), kernel, **named)
    return [finding for checker in checkers for finding in checker.findings()]


@pytest.mark.first(1)
@pytest.mark.parametrize(("config", "kind"), list(zip(CONFIGS[:2], KINDS[:2], strict=True)), ids=str)
def test_the_checker_finds_nothing(config, kind):
    assert found(config, kind, Groups((5, 0, 70, 1, 129), 3, 72, 130)) == []


@pytest.mark.further
@pytest.mark.parametrize("config", CONFIGS[:2], ids=str)
def test_the_checker_finds_nothing_in_float8(config):
    kind = Kind("NT", FLOAT8[0], "bfloat16", 0)
    assert found(config, kind, Groups((5, 0, 70, 1, 129), 3, 72, 272), kernel=FP8) == []


def test_the_wait_for_the_launch_before_cannot_be_left_out_undetected(tmp_path):
    text = KERNEL.source.read_text()
    (tmp_path / KERNEL.source.name).write_text(text.replace("grid_dependency_wait();", ";"))
    hasty = replace(KERNEL, source=tmp_path / KERNEL.source.name)
    findings = found(CONFIGS[0], KINDS[0], GAPPED, kernel=hasty)
    assert {finding.kind for finding in findings} == {"early access"}
    assert any("reads offsets[" in str(finding) for finding in findings)


NEEDED = (
    "wait_products<0>(sums);",
    "fence_barrier_init();",
    "shared->barriers.wait_full(turn);\n            multiply_stage",
)


@pytest.mark.first(1)
@pytest.mark.parametrize("text", NEEDED)
def test_nothing_that_orders_can_be_left_out_undetected(text, tmp_path):
    source = KERNEL.source.read_text()
    assert source.count(text) == 1
    cached = "multiply_stage" if text.endswith("multiply_stage") else ""
    (tmp_path / KERNEL.source.name).write_text(source.replace(text, cached))
    faulty = replace(KERNEL, source=tmp_path / KERNEL.source.name)
    try:
        findings = found(CONFIGS[0], KINDS[0], Groups((5, 0, 70, 1, 129), 3, 72, 130), kernel=faulty)
    except LaunchError:
        return
    assert findings


BROKEN = [
    ({"BM": 192}, "multiple of 64 rows for each consumer"),
    ({"BN": 20, "CLUSTER_M": 2}, "multiple of 8"),
    ({"BM": 256, "BN": 208}, "at most 192"),
    ({"STAGES": 1}, "at least 2"),
    ({"CLUSTER_M": 4, "CLUSTER_N": 4}, "a cluster must have 1 to 8 blocks, got 16"),
    ({"STAGES": 7}, "shared memory"),
    ({"SPLITS": 2}, "no parameter 'SPLITS'"),
]


@pytest.mark.parametrize(("overrides", "reason"), BROKEN, ids=str)
def test_a_config_that_breaks_a_constraint_is_refused(overrides, reason):
    with pytest.raises(ConfigError, match=reason):
        KERNEL.config(overrides)


def test_grouped_products_are_for_this_kernel_and_others_are_not():
    grouped = Problem(64, 64, 64, Arithmetic("float16", "float16"), 3, grouped=True)
    plain = Problem(64, 64, 64, Arithmetic("float16", "float16"), 3)
    assert KERNEL.why_not(grouped) is None
    with pytest.raises(ProblemError, match="grouped_sm90 takes grouped products alone, got 3 of 64x64x64, NN float16"):
        KERNEL.check(plain)
    with pytest.raises(ProblemError, match=r"gemm_sm90 takes no grouped products, got .* grouped"):
        find("gemm_sm90").check(grouped)
    assert grouped.flops == plain.flops / 3 == 2 * 64**3


@given(GROUPS)
@settings(deadline=None, derandomize=True)
def test_no_groups_have_more_tiles_than_the_grid_is_made_for(groups):
    config = KERNEL.config(CONFIGS[1])
    problem = Problem(sum(groups.rows) + groups.rest, groups.n, groups.k, "float16", len(groups.rows), grouped=True)
    tiles = sum(-(-rows // (config.BM * config.CLUSTER_M)) for rows in groups.rows)
    assert tiles * -(-groups.n // (config.BN * config.CLUSTER_N)) <= most_tiles(problem, config)
