"""Which rung is taken where none is named, and how rungs are named."""

import cProfile
import math
import pstats
import statistics
import subprocess
import sys
from dataclasses import replace

import pytest

from tilewright import select as select_module
from tilewright.errors import DtypeError, KernelNotFoundError
from tilewright.kernels import KERNELS, LADDER, find, resolve
from tilewright.problem import DTYPES, Problem
from tilewright.select.selector import select
from tilewright.tables import store
from tilewright.tables.table import Entry

CAPABILITIES = [None, (7, 5), (8, 0), (8, 6), (9, 0), (12, 0)]
GPUS = [("NVIDIA H200", (9, 0)), ("NVIDIA A100-SXM4-80GB", (8, 0)), ("unheard of", (8, 6))]


def forget():
    """Drop what was read of tables, and chosen by them."""
    for cached in (store.load, store.shipped):
        cached.cache_clear()
    for name in ("_select", "_tabled", "_tabled_alike", "_kernel_factors"):
        getattr(select_module, name).cache_clear()


@pytest.fixture(autouse=True)
def own_tables(tmp_path, monkeypatch):
    """A folder of the user's tables that is empty."""
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path / "tables"))
    forget()
    yield tmp_path / "tables"
    forget()


def entry(shape, kernel, gflops, config=None, dtype="float32", **others):
    problem, found = Problem.parse(shape), find(kernel)
    fields = {"m": problem.m, "n": problem.n, "k": problem.k, "config": dict(found.config(config))}
    return Entry(**fields, dtype=dtype, kernel=kernel, gflops=gflops, **others)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("shape", ["0", "1", "17x1x5", "64", "100", "128", "1000x1x1000", "1024", "1x70000x3", "8192"])
def test_every_problem_gets_a_kernel_and_a_config_that_it_takes(shape, capability, dtype):
    problem = Problem.parse(shape, dtype=dtype)
    if capability and not any(k.capability_for(dtype) <= capability for k in KERNELS if dtype in k.takes.factors):
        with pytest.raises(DtypeError, match=f"no kernel takes {dtype}"):
            select(problem, capability)
        return
    kernel, config = select(problem, capability)
    kernel.check(problem)
    assert config == kernel.config(config)
    assert kernel.precision is None
    assert capability is None or kernel.capability_for(dtype) <= capability


@pytest.mark.parametrize(("device", "capability"), GPUS)
def test_a_large_matrix_gets_large_tiles_and_a_small_one_more_and_smaller(device, capability):
    def tile(shape):
        kernel, config = select(Problem.parse(shape), capability, device)
        return kernel.tile(config), kernel.threads(config)

    (large, threads), (small, _) = tile("4096"), tile("256")
    assert large.m * large.n >= 64 * 64
    assert large.m * large.n / threads >= 16
    assert small.m * small.n < large.m * large.n


def test_one_whole_tile_is_enough_for_the_emulator():
    assert select(Problem.parse("128"), None)[0] is find("warptiled")
    assert select(Problem.parse("8x8x4096"), None)[0] is find("coalesced")


def test_a_tabled_shape_gets_what_was_fastest_there(own_tables):
    store.save("NVIDIA H200", (9, 0), [entry("300x200x100", "vectorized", 50), entry("300x200x100", "padded", 60)])
    assert select(Problem.parse("300x200x100"), (9, 0), "NVIDIA H200")[0] is find("padded")


def test_what_errs_little_is_preferred(own_tables):
    def picked(*ratios):
        names = ("vectorized", "padded", "conflict_free")
        entries = [
            entry("300x200x100", name, gflops, error_ratio=ratio)
            for name, gflops, ratio in zip(names, (50, 60, 70), ratios, strict=True)
        ]
        store.save("NVIDIA H200", (9, 0), entries)
        forget()
        return select(Problem.parse("300x200x100"), (9, 0), "NVIDIA H200")[0].name

    assert picked(1.0, 1.4, 1.6) == "padded"
    assert picked(2.0, None, 1.6) == "padded"
    assert picked(2.0, 2.0, 1.6) == "conflict_free"


def test_the_users_table_comes_before_the_shipped_one():
    shipped = next(table for table in store.shipped() if table.gpu == "NVIDIA H200")
    accurate = (e for e in shipped.entries if e.dtype == "float32" and e.accurate)
    one = max(accurate, key=lambda e: e.gflops)
    problem = Problem(one.m, one.n, one.k)
    kernel, config = select(problem, (9, 0), "NVIDIA H200")
    assert (kernel.name, config) == (one.kernel, one.config)
    other = "coalesced" if one.kernel != "coalesced" else "naive"
    store.save("NVIDIA H200", (9, 0), [entry(problem.shape, other, 1e-3)])
    forget()
    assert select(problem, (9, 0), "NVIDIA H200")[0].name == other


def test_between_tabled_shapes_what_did_well_nearby_is_taken(own_tables):
    small, large = {"BM": 32, "BN": 32, "BK": 16, "TM": 4, "TN": 4}, {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
    entries = [entry(shape, "vectorized", gflops, small) for shape, gflops in (("128", 900), ("4096", 20000))]
    entries += [entry(shape, "vectorized", gflops, large) for shape, gflops in (("128", 700), ("4096", 29000))]
    store.save("NVIDIA X", (8, 0), entries)
    assert select(Problem.parse("144"), (8, 0), "NVIDIA X") == (find("vectorized"), find("vectorized").config(small))
    assert select(Problem.parse("3968"), (8, 0), "NVIDIA X") == (find("vectorized"), find("vectorized").config(large))


def test_far_from_all_tabled_shapes_the_ladders_own_configs_are_candidates_too():
    store.save("NVIDIA X", (8, 0), [entry("16", "naive", 1)])
    kernel, config = select(Problem.parse("8192"), (8, 0), "NVIDIA X")
    assert kernel.tile(config).m >= 64


def test_another_gpu_of_the_same_capability_lends_its_table():
    shapes = select_module._tabled_alike((9, 0), "float32").shapes
    (one,) = [shape for shape in shapes if shape.problem.shape == "4096x4096x4096"]
    kernel, config = select(Problem.parse("4096"), (9, 0), "NVIDIA H100 80GB HBM3")
    assert kernel in [known.kernel for known in one.known[:10]]
    assert (kernel, config) in [(known.kernel, known.config) for shape in shapes for known in shape.known]


def test_a_kernel_that_cannot_take_the_operands_is_not_picked(monkeypatch):
    needy = replace(find("vectorized"), name="needy", needs_alignment=True)
    newer = replace(find("vectorized"), name="newer", least_capability=(9, 0))
    rounds = replace(find("vectorized"), name="rounds", precision="tf32")
    ladder = (*KERNELS, needy, newer, rounds)
    by_name = {kernel.name: kernel for kernel in ladder}
    monkeypatch.setattr(select_module, "KERNELS", ladder)
    monkeypatch.setattr(select_module, "find", by_name.__getitem__)
    config = dict(needy.config())
    speeds = {"rounds": 400.0, "newer": 300.0, "needy": 290.0, "vectorized": 280.0}
    entries = [
        Entry(m=m, n=m, k=m, dtype="float32", kernel=name, config=config, gflops=gflops)
        for m in (512, 513)
        for name, gflops in speeds.items()
    ]
    store.save("NVIDIA X", (8, 0), entries)

    def picked(shape, capability=(8, 0), addresses=(0, 0, 0)):
        return select(Problem.parse(shape), capability, "NVIDIA X", addresses)[0].name

    assert picked("512") == "needy"
    assert picked("512", (9, 0)) == "newer"
    assert picked("512", addresses=(4, 0, 0)) == "vectorized"
    assert picked("513") == "vectorized"
    assert picked("516") == "needy"
    assert picked("517") == "vectorized"


def test_entries_of_kernels_and_configs_that_are_gone_are_passed_over():
    stale = entry("64", "vectorized", 1000).model_copy(update={"config": {"BM": 7}})
    gone = entry("64", "vectorized", 1000).model_copy(update={"kernel": "gone"})
    store.save("NVIDIA X", (8, 0), [stale, gone, entry("64", "coalesced", 900)])
    assert select(Problem.parse("64"), (8, 0), "NVIDIA X")[0] is find("coalesced")


def test_a_corrupt_user_table_is_no_obstacle(own_tables):
    usual = select(Problem.parse("1024"), (9, 0), "NVIDIA H200")
    own_tables.mkdir()
    (own_tables / "nvidia_h200.json").write_text("{")
    forget()
    with pytest.warns(RuntimeWarning, match="a table is left out"):
        assert select(Problem.parse("1024"), (9, 0), "NVIDIA H200") == usual


@pytest.mark.parametrize(("device", "capability"), GPUS)
def test_it_is_quick(device, capability):
    """By the calls it makes, a fifth of a microsecond each where it was written: a time depends on who else runs."""
    select(Problem(1012, 1004, 1012), capability, device)  # reads the tables, and finds what each config needs
    profile = cProfile.Profile()
    profile.runcall(select, Problem(1000, 1004, 1008), capability, device)
    assert 100 < pstats.Stats(profile).total_calls < 20000


def test_it_loads_no_cuda():
    lines = (
        "import sys",
        "from tilewright.problem import Problem",
        "from tilewright.select.selector import select",
        "assert 'pydantic' not in sys.modules",
        "select(Problem.parse('1000'), (9, 0), 'NVIDIA H200')",
        "assert not [name for name in sys.modules if name.split('.')[0] == 'cuda'], sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_its_expectations_meet_what_was_measured(monkeypatch):
    """Left out of the table, a shape still gets a config that is nearly the fastest of those measured on it, as far as
    other shapes know them."""
    gpu, capability = GPUS[0]
    shapes = select_module._tabled(gpu, "float32").shapes
    regrets = {}
    for left_out in shapes:
        there = {(one.kernel, one.config): one.time_us for one in left_out.known}
        others = [
            shape._replace(known=tuple(one for one in shape.known if (one.kernel, one.config) in there))
            for shape in shapes
            if shape is not left_out
        ]
        rest = select_module._Knowledge(tuple(shape for shape in others if shape.known))
        fastest = min((there[one.kernel, one.config] for shape in rest.shapes for one in shape.known), default=math.inf)
        monkeypatch.setattr(select_module, "_tabled", lambda device, dtype, rest=rest: rest)
        select_module._select.cache_clear()
        picked = select(left_out.problem, capability, gpu)
        if picked in there:
            regrets[left_out.problem.shape] = max(there[picked] / fastest, 1.0)
    monkeypatch.undo()
    assert len(regrets) == len(shapes) > 200, "every pick is one that was measured"
    assert statistics.geometric_mean(regrets.values()) < 1.015
    assert max(regrets.values()) < 1.2, regrets


def test_short_products_are_not_shared_among_blocks():
    """On 785x1331x92 a config whose blocks share tiles took 1.76 times as long as the fastest."""
    _, config = select(Problem.parse("785x1331x92"), (9, 0), "NVIDIA H200")
    assert config["WAVE"] <= 1


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_a_kernel_is_found_by_name_and_by_rung(kernel):
    assert resolve(kernel.name) == resolve(str(kernel.rung)) == (kernel, {})


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_presets_are_found_after_a_colon(kernel):
    for preset, overrides in kernel.presets.items():
        assert resolve(f"{kernel.name}:{preset}") == resolve(f" {kernel.rung}:{preset} ") == (kernel, overrides)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("warptield", "no kernel is called 'warptield'; did you mean 'warptiled'?"),
        ("99", "no kernel is called '99'; there are naive, coalesced"),
        ("", "no kernel is called ''"),
        ("shared_tiled:fastcuda_v1", "shared_tiled has no preset 'fastcuda_v1'; did you mean 'fastcuda_v2'?"),
        ("coalesced:anything", "coalesced has no preset 'anything'; there are none"),
        ("vectorized:", "vectorized has no preset ''"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(text, words):
    with pytest.raises(KernelNotFoundError) as caught:
        resolve(text)
    assert words in str(caught.value)
