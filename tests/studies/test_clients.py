"""Programs with each way to multiply: on the host, where all ways are NumPy's and PyTorch's."""

import pytest

WAYS = ["PyTorch float32", "PyTorch TF32", "tilewright float32", "tilewright fp16x3"]


@pytest.mark.further
def test_each_program_runs_with_each_way():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from studies.clients import measuring  # noqa: PLC0415
    from studies.frameworks.models import Sizes  # noqa: PLC0415

    sizes = Sizes(width=16, heads=2, layers=1, vocabulary=32, batch=2, length=8)
    scale = measuring.Scale("cpu", ((48, 16),), ((40, 3),), sizes=sizes, steps=3, turns=1)
    before = torch.backends.cuda.matmul.fp32_precision
    found = list(measuring.outcomes(scale))
    assert torch.backends.cuda.matmul.fp32_precision == before
    programs = ("Cholesky", "48, 16 at a time"), ("conjugate gradients", "40, 3 sides"), ("training of GPT-2", "2 x 8")
    assert [(*one.what.values(), one.way) for one in found] == [(*program, way) for program in programs for way in WAYS]
    assert all(0 < one.error < 1e-5 and one.us > 0 for one in found)
    assert ["steps" in one.facts for one in found] == [False] * 4 + [True] * 8
