"""The Python that the README prints runs as it stands."""

import re

import pytest

pytestmark = pytest.mark.gpu


def test_the_readme_s_code_runs(request):
    torch = pytest.importorskip("torch")
    import tilewright.torch  # noqa: PLC0415 PyTorch may be missing

    blocks = re.findall(r"^```python\n(.*?)^```", (request.config.rootpath / "README.md").read_text(), re.M | re.S)
    (code,) = (block for block in blocks if "cuda" in block)
    names: dict[str, object] = {}
    try:
        exec(code, names)
    finally:
        tilewright.torch.disable()
    a, b = names["a"].double(), names["b"].double()
    expected = torch.nn.functional.gelu(a @ b.T + a[0])
    assert torch.linalg.norm(names["y"].double() - expected) <= 1e-6 * torch.linalg.norm(expected)
