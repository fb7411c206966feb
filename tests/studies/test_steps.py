"""Steps of models under enable(), on the host: what is timed, and that all ways and works are there."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from studies.steps import measuring as steps  # noqa: E402

TINY = steps.Llama(1, 32, 48, 4, 2, 64, 2, 9)


@pytest.mark.further
@pytest.mark.parametrize("way", ["PyTorch", "enable()"])
def test_first_steps(monkeypatch, way):
    monkeypatch.setattr(steps, "STEPS", 3)
    (found,) = steps.first(way, TINY)
    assert found.way == way
    assert found.us == pytest.approx(1e6 * found.facts["steps_s"][0])
    assert len(found.facts["stock_steps_s"]) == 2
    assert len(found.facts["steps_s"]) == 3


@pytest.mark.further
def test_models_take_turns():
    found = list(steps.models(TINY, steps.Vit(32, 1, 4, 2, 32), pairs=2))
    assert len({one.what["work"] for one in found}) == 5
    assert [one.way for one in found[:3]] == ["PyTorch", "enable()", "PyTorch again"]
    assert all(len(one.facts["speedups"]) == 2 for one in found)
    assert torch.backends.cuda.matmul.fp32_precision == "none"
    assert torch.get_default_dtype() == torch.float32
