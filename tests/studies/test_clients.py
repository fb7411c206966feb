"""Programs with each way to multiply: on the host, where all ways are NumPy's and PyTorch's; files, and the command."""

from pathlib import Path

import pytest

from studies.clients import __main__ as command
from studies.clients.outcomes import Clients, Outcome
from tilewright.engines.registry import cuda_unavailable
from tilewright.errors import RecordsError

EXAMPLES = Path(__file__).parents[2] / "examples"
WAYS = ["PyTorch float32", "PyTorch TF32", "tilewright float32", "tilewright fp16x3"]


def test_each_program_runs_with_each_way():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from studies.clients import measuring  # noqa: PLC0415
    from studies.frameworks.models import Sizes  # noqa: PLC0415

    sizes = Sizes(width=16, heads=2, layers=1, vocabulary=32, batch=2, length=8)
    scale = measuring.Scale("cpu", ((48, 16),), ((40, 3),), sizes=sizes, steps=3, turns=1)
    before = torch.backends.cuda.matmul.fp32_precision
    found = list(measuring.outcomes(EXAMPLES, scale))
    assert torch.backends.cuda.matmul.fp32_precision == before
    programs = ("Cholesky", "48, 16 at a time"), ("conjugate gradients", "40, 3 sides"), ("training of GPT-2", "2 x 8")
    assert [(one.client, one.size, one.way) for one in found] == [
        (*program, way) for program in programs for way in WAYS
    ]
    assert all(0 < one.error < 1e-5 and one.seconds > 0 for one in found)
    assert [one.steps is not None for one in found] == [False] * 4 + [True] * 8


def test_files_keep_outcomes(tmp_path):
    one = Outcome(client="a solver", size="3", way="some", seconds=1.5, error=1e-7)
    run = Clients(environment={"gpu": {"name": "G"}}, outcomes=[one])
    run.save(tmp_path / "run.json")
    assert Clients.load(tmp_path / "run.json") == run
    (tmp_path / "other.json").write_text('{"records": []}')
    with pytest.raises(RecordsError, match=r"other\.json is not a file of records"):
        Clients.load(tmp_path / "other.json")


@pytest.mark.skipif(not cuda_unavailable(), reason="there is a GPU")
def test_the_command_says_what_is_missing(capsys, tmp_path):
    assert command.main([str(EXAMPLES), "--json", str(tmp_path / "run.json")]) == 1
    assert "error: the cuda engine cannot run here" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
