"""Profiles: what is made of the profiler's counters, and the table of them."""

import pytest

from studies.profiles import figures
from studies.profiles import measuring as profiles
from studies.profiles import tables as page
from studies.profiles.figures import stalls
from studies.record import Measurements
from tilewright.core.errors import EngineUnavailableError
from tilewright.core.problem import Arithmetic, Problem
from tilewright.kernels import LADDER, find
from tilewright.tools.bench import ncu
from tilewright.tools.bench.profile import Profile

SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"
COUNTERS = {
    "gpu__time_duration.sum": 2_000_000.0,
    f"{SECTORS}.sum": 1000.0,
    f"{SECTORS}_lookup_hit.sum": 250.0,
    "lts__t_sectors_op_read.sum": 800.0,
    "lts__t_sectors_op_read_lookup_hit.sum": 600.0,
    "lts__t_sectors_op_write.sum": 200.0,
    "dram__bytes_read.sum": 5e9,
    "dram__bytes_write.sum": 1e9,
    "smsp__issue_active.sum": 90.0,
    "smsp__cycles_active.sum": 100.0,
    ncu.STALLS["selected"]: 1.0,
    ncu.STALLS["barrier"]: 0.5,
    ncu.STALLS["long_scoreboard"]: 2.5,
}


def run_of(environment, *found):
    return Measurements(environment=environment, measurements=map(profiles.measured, found))


@pytest.fixture
def profile():
    return profiles.of_launch(
        find("naive"), ncu.ProfiledLaunch.of(find("naive"), find("naive").config(), Problem(4, 5, 6)), COUNTERS
    )


def test_what_follows_from_counters(profile):
    assert (profile.problem, profile.time_us, profile.launched) == (Problem(4, 5, 6), 2000, ["naive"])
    assert (profile.l1_hits, profile.l2_hits, profile.issuing) == (0.25, 0.75, 0.9)
    assert (profile.l2_bytes, profile.dram_bytes) == (32_000, 6e9)
    assert profile.dram_gbs == 3000
    assert list(profile.stalls.items()) == [("long_scoreboard", 0.625), ("selected", 0.25), ("barrier", 0.125)]


def test_counters_that_are_missing_make_nothing_of_it(profile):
    empty = profile.model_copy(update={"counters": {"dram__bytes_read.sum": 1.0}})
    assert {empty.time_us, empty.l1_hits, empty.l2_hits, empty.l2_bytes, empty.dram_bytes, empty.dram_gbs} == {None}
    assert empty.stalls == {}


def test_the_kernels_of_cublas_are_added_up():
    longer = {"gpu__time_duration.sum": 90.0, "dram__bytes_read.sum": 7.0, ncu.STALLS["wait"]: 0.5}
    shorter = {"gpu__time_duration.sum": 10.0, "dram__bytes_read.sum": 2.0, ncu.STALLS["wait"]: 3.0}
    one = profiles.of_cublas(Problem(4, 5, 6), [ncu.Profiled("add", shorter), ncu.Profiled("gemm", longer)])
    assert (one.kernel, one.launched) == (ncu.CUBLAS, ["add", "gemm"])
    assert one.counters == {"gpu__time_duration.sum": 100.0, "dram__bytes_read.sum": 9.0, ncu.STALLS["wait"]: 0.5}


@pytest.mark.parametrize(("capability", "without"), [((9, 0), set()), ((8, 0), {"wgmma", "tma_packed"})])
def test_every_rung_that_runs_and_cublas_are_profiled(monkeypatch, capability, without):
    launched, multiplied = [], []
    monkeypatch.setattr(ncu, "profile", lambda launches: launched.extend(launches) or [COUNTERS] * len(launches))
    monkeypatch.setattr(
        ncu, "profile_cublas", lambda one, *of: multiplied.append(one) or [ncu.Profiled("gemm", COUNTERS)]
    )
    made = list(profiles.of_ladder(capability, "NVIDIA H200"))
    names = [launch.kernel for launch in launched]
    besides = {"gemm_mma", "gemm_mma_tf32", "gemm_sm90", "gemm_tf32_nn"}
    assert set(names) <= {kernel.name for kernel in LADDER} | besides
    assert not without & set(names)
    if not without:
        assert set(names) == {kernel.name for kernel in LADDER} | besides
        assert made[-1].kernel == ncu.CUBLAS_TF32
    assert ("naive", "4092x4092x4092") in {(launch.kernel, launch.shape) for launch in launched}
    of_rungs = {one.problem for one in launched if one.shape != "4092x4092x4092" and find(one.kernel).rung}
    assert of_rungs - {Problem.parse("4096", arithmetic=Arithmetic("bfloat16", "float32"))} == set(multiplied)
    assert len(made) == len(launched) + len(multiplied)


def test_what_is_picked_for_the_library_is_profiled_and_cublas_on_the_same(monkeypatch):
    launched, multiplied = [], []
    monkeypatch.setattr(ncu, "profile", lambda launches: launched.extend(launches) or [COUNTERS] * len(launches))
    monkeypatch.setattr(
        ncu, "profile_cublas", lambda one, *of: multiplied.append(one) or [ncu.Profiled("gemm", COUNTERS)]
    )
    made = list(profiles.of_library((9, 0), "NVIDIA H200"))
    assert [launch.problem for launch in launched] == multiplied
    assert [(problem.shape, problem.layout, problem.dtype) for problem in multiplied] == [
        (*product, "bfloat16") for product in profiles.LIBRARY
    ]
    assert [one.kernel for one in made] == ["gemm_sm90", ncu.CUBLAS] * len(profiles.LIBRARY)
    assert [one.problem for one in made[1::2]] == multiplied


def test_a_product_of_the_library_has_the_cycles_of_a_request():
    counters = {"gpu__time_duration.sum": 9_000.0, "sm__cycles_elapsed.max": 12_000.0}
    requested = counters | {"lts__t_requests_srcunit_tex.sum": 528_000.0}
    config = {"BM": 64, "BN": 144, "CLUSTER_M": 4, "CLUSTER_N": 1}
    launch = ncu.ProfiledLaunch(
        kernel="gemm_sm90", config=config, shape="4x5x6", dtype="bfloat16", out_dtype="bfloat16", layout="NT"
    )
    own = profiles.of_launch(find("gemm_sm90"), launch, requested)
    cublas = profiles.of_cublas(launch.problem, [ncu.Profiled("gemm", counters)])
    facts = {"gpu": {"name": "NVIDIA H200", "multiprocessors": 132}, "date": "2026-11-25T01:00:00", "revision": "abc"}
    text = page.of_library(run_of(facts, own, cublas))
    assert "on one NVIDIA H200" in text
    assert "revision abc" in text
    tiles = "`gemm_sm90`, tiles of 64 x 144, clusters of 4 x 1"
    assert text.splitlines()[-2:] == [
        f"| 4x5x6 | NT | {tiles} | 9.0 | 12,000 | 528,000 | 3.00 |  |",
        "| 4x5x6 | NT | `gemm` | 9.0 | 12,000 |  |  |  |",
    ]


def test_the_part_of_the_page(profile):
    cublas = profiles.of_cublas(Problem(4, 5, 6), [ncu.Profiled("gemm<4>", COUNTERS)])
    facts = {"gpu": {"name": "NVIDIA H200"}, "date": "2026-11-25T01:00:00", "revision": "abc"}
    text = page.section(run_of(facts, profile, cublas))
    assert text.startswith("What Nsight Compute counts")
    expected = "| 1 naive | 4x5x6 | float32 | 2,000.0 | 25.0% | 75.0% | 0.00 | 6.00 | 3,000 |  | 90% |"
    assert f"{expected} long scoreboard 62%, barrier 12% |" in text
    assert "| 4x5x6 | float32 | `gemm<4>` |" in text


def test_a_profile_without_counters_has_an_empty_row(profile):
    bare = Profile(**(profile.model_dump() | {"counters": {}}))
    text = page.section(run_of({"gpu": {"name": "X"}, "date": "2026-11-25T01:00:00", "revision": "abc"}, bare))
    assert "| 1 naive | 4x5x6 | float32 |  |  |  |  |  |  |  |  |  |" in text


def test_a_profile_is_kept_whole(profile):
    assert profiles.profile_of(profiles.measured(profile)) == profile
    assert "counters" not in str(profiles.measured(profile))


def test_a_launch_that_fails_leaves_the_others(monkeypatch, capsys):
    def profile(launches):
        if any(one.kernel == "coalesced" for one in launches):
            raise EngineUnavailableError("it may not count")
        return [COUNTERS] * len(launches)

    monkeypatch.setattr(ncu, "profile", profile)
    names = ("naive", "coalesced", "padded")
    launches = [ncu.ProfiledLaunch.of(find(name), find(name).config(), Problem(64, 64, 64)) for name in names]
    assert [one.kernel for one in profiles._of_launches(launches)] == ["naive", "padded"]
    assert "coalesced is left out: it may not count" in capsys.readouterr().err
    with pytest.raises(EngineUnavailableError):
        list(profiles._of_launches(launches[1:2]))


def test_bars_of_stalls_have_all_reasons(profile):
    svg = stalls([profile, profile.model_copy(update={"kernel": "coalesced", "rung": 2})])
    for text in ("1 naive", "2 coalesced", "62%", "25%", "12%", "global memory (long scoreboard)", "barrier", "issues"):
        assert text in svg
    assert "others" not in svg
    assert len(svg) < 60_000
    assert float(svg.partition('viewBox="0 0 ')[2].split()[0]) <= 910


def test_small_and_unknown_reasons_are_drawn_together(profile):
    counters = profile.counters | {ncu.STALLS["membar"]: 0.5, ncu.STALLS["wait"]: 0.01}
    found = figures._shown(profile.model_copy(update={"counters": counters}))
    assert found["others"] == pytest.approx(0.51 / 4.51)
    assert sum(found.values()) == pytest.approx(1)


def test_the_table_of_tensor_cores(profile):
    pipe, conflicts = "sm__pipe_tensor_op_hmma_cycles_active.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
    more = {"sm__cycles_active.sum": 100.0, pipe: 100.0, "smsp__inst_executed.sum": 2.5e6}
    more |= {f"{conflicts}_ld.sum": 1e6, f"{conflicts}_st.sum": 2e6}
    known = profile.model_copy(update={"counters": profile.counters | more})
    facts = {"gpu": {"name": "NVIDIA H200"}, "date": "2026-11-25T01:00:00", "revision": "abc"}
    other = profile.model_copy(update={"kernel": "padded", "rung": 8})
    text = page.tensor_cores(run_of(facts, other, known, other), ("naive", "wmma_f16"))
    assert text.splitlines()[0] == "Nsight Compute, on an NVIDIA H200, 2026-11-25, revision abc:"
    row = "| 1 naive | float32 | 2,000.0 | 2.5 |  | 3.0 | 25% | long scoreboard 62%, barrier 12% |"
    assert text.splitlines()[4:] == [row]


def test_where_cublas_fails_the_profiles_go_on(monkeypatch, capsys):
    def fails(problem, library):
        raise EngineUnavailableError("it failed to launch")

    monkeypatch.setattr(ncu, "profile", lambda launches: [COUNTERS] * len(launches))
    monkeypatch.setattr(ncu, "profile_cublas", fails)
    made = list(profiles.of_ladder((8, 0), "NVIDIA A100-SXM4-80GB"))
    assert made and all(ncu.CUBLAS not in one.kernel for one in made)
    assert "cuBLAS TF32 of NN float32 is left out: it failed to launch" in capsys.readouterr().err
