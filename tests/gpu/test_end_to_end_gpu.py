"""Calls of matmul next to PyTorch's own, on a real GPU."""

import pytest

from studies.first_calls.measuring import measure
from tilewright.api.engines import resolve_engine
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Problem, Scalars, orders
from tilewright.tools.bench.end_to_end import TorchCalls


@pytest.fixture(scope="module")
def calls():
    pytest.importorskip("torch", reason="pip install torch")
    return TorchCalls.on_gpu()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
def test_both_are_timed_in_every_layout(calls, layout, batch):
    a, b = orders(layout)
    new, out = calls.measure(Problem(256, 192, 128, batch=batch, a=a, b=b), Scalars(), None)
    for times in (new, out):
        assert times.framework == calls.name
        assert 1 < times.host_us.ours < 1e4 and 1 < times.host_us.baseline < 1e4
        assert times.wall_us.ours > 1 and times.wall_us.baseline > 1


@pytest.mark.parametrize("arithmetic", [Arithmetic("float16"), Arithmetic("bfloat16", "bfloat16")])
@pytest.mark.parametrize("epilogue", [Epilogue(), Epilogue("row", "gelu"), Epilogue(None, "silu")])
def test_both_compute_the_same_in_16_bits_and_with_epilogues(calls, arithmetic, epilogue):
    calls.measure(Problem(128, 192, 256, arithmetic, epilogue=epilogue), Scalars(), None)  # compares them


def test_tf32_is_off_while_calls_are_timed_and_as_before_after(calls):
    import torch  # noqa: PLC0415 only where there is one

    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        calls.measure(Problem(512, 512, 512), Scalars(), None)  # TF32 would differ by 3e-4
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_first_calls_are_timed_once_code_is_loaded(calls, dtype):
    engine = resolve_engine("cuda")
    found = measure(calls, dtype, "NT", lambda: engine.loaded, shapes=10, loading=40)
    ours, _, ours_again, theirs_again = (one.us for one in found)
    assert 1 < ours_again < ours < 1e4
    assert 1 < theirs_again < 1e4
