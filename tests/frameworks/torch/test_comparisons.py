"""The comparison with PyTorch alone, in small and on the host."""

import contextlib
import gc
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

torch = pytest.importorskip("torch")

import tilewright.torch  # noqa: E402
from studies.frameworks import comparisons as kinds  # noqa: E402
from studies.frameworks import models, of_torch  # noqa: E402
from tilewright.core.errors import LaunchError  # noqa: E402
from tilewright.frameworks.torch.enable import routing  # noqa: E402
from tilewright.select.speedup import Speedup  # noqa: E402
from tilewright.tools.bench import end_to_end  # noqa: E402

pytestmark = pytest.mark.further

asked = []


def bytes_of_tensors():
    """A stand-in for the memory of a GPU that is in use: that of the tensors of this process, which is noted."""
    asked.append("here")
    gc.collect()
    return sum(one.nbytes for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter))


def peak_bytes():
    """A stand-in for what PyTorch's allocator counts."""
    return 3 * 2**20


SMALL = of_torch.Scale(
    device="cpu",
    used_bytes=bytes_of_tensors,
    peak_bytes=peak_bytes,
    calls=(16,),
    tokens=(8,),
    features=32,
    sizes=models.Sizes(width=32, heads=4, layers=1, vocabulary=96, batch=2, length=16, rank=4),
    short=8,
    steps=3,
    models=("MLP",),
    in_bf16=("MLP",),
    left="LoRA",
    turns=3,
    untimed=1,
    timed=2,
    backend="aot_eager",
)


@pytest.fixture
def quick(monkeypatch):
    """Few calls."""
    monkeypatch.setattr(end_to_end, "WALL_S", 1e-4)
    monkeypatch.setattr(end_to_end, "HOST_SAMPLES", 5)
    monkeypatch.setattr(of_torch, "HOST_BOUND_SAMPLES", 3)


@pytest.fixture
def on_the_host(monkeypatch):
    """enable() routes tensors of the host, where everything is faster."""
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: Speedup(1.1, 1.0))


@pytest.fixture
def one_process(monkeypatch):
    """One for all memories, since PyTorch takes seconds to load."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        monkeypatch.setattr(of_torch, "ProcessPoolExecutor", lambda *_: contextlib.nullcontext(process))
        yield


def test_everything_is_compared_with_pytorch_alone(quick, on_the_host, one_process):
    before = len(asked)
    found = [*of_torch.comparisons(SMALL), *of_torch.trainings_in_bf16(SMALL)]
    assert len(asked) == before, "memory is that of other processes"
    assert not any(routes.installed for routes in routing._routes.values())
    assert sum(row.calls for row in tilewright.torch.report() if row.where == "tilewright") > 50
    assert {(one.what["kind"], one.what["of"]) for one in found} == {
        (kinds.COMPILED_CALL, "16"),
        (kinds.LAYER, "8 tokens"),
        (kinds.LAYER_BY_MATMUL, "8 tokens"),
        *((kind, "MLP") for kind in (kinds.EAGER, kinds.COMPILED, kinds.SHORT, kinds.SHORT_COMPILED)),
        *((kind, "MLP") for kind in (kinds.BF16, kinds.BF16_COMPILED)),
        (kinds.NOTHING_IS_FASTER, "LoRA in float64"),
    }
    assert all(one.us > 0 for one in found)
    by_kind = {(one.what["kind"], one.way): one for one in found}
    nothing = by_kind[kinds.NOTHING_IS_FASTER, kinds.ALONE]
    assert 0 < nothing.facts["fastest_us"] <= nothing.us <= nothing.facts["slowest_us"]
    ours, alone = (by_kind[kinds.EAGER, way].facts for way in (kinds.OURS, kinds.ALONE))
    compiled = by_kind[kinds.COMPILED, kinds.OURS].facts
    assert ours["loss_difference"] < 1e-4 and compiled["loss_difference"] < 1e-4
    assert (ours["peak_mib"], alone["peak_mib"]) == (3, 3)
    parameters = sum(one.nbytes for one in models.TASKS["MLP"](SMALL.sizes).model.parameters())
    assert alone["held_mib"] * 2**20 > 3 * parameters, "AdamW keeps two more of each"
    assert ours["held_mib"] > 0
    assert set(compiled) == {"loss_difference"}


@pytest.mark.parametrize("routed", [True, False])
def test_one_of_both_memories_is_that_of_a_training_by_enable(on_the_host, routed):
    of_torch._memory(SMALL._replace(used_bytes=lambda: 0), "MLP", routed)
    assert bool(tilewright.torch.report()) == routed


def test_wrong_gradients_are_found(quick, monkeypatch):
    monkeypatch.setattr(of_torch, "matmul", lambda x, w, bias: x @ w + 2 * bias)
    with pytest.raises(LaunchError, match=r"gradient of a layer, 8 tokens: .* differs"):
        list(of_torch.comparisons(SMALL._replace(calls=())))
