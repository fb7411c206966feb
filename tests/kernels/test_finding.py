"""How kernels and presets are named."""

import pytest

from tilewright.core.errors import KernelNotFoundError
from tilewright.kernels import LADDER, resolve


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
        ("best", "'best' is no kernel: bench and explain alone take it, for what matmul runs"),
        ("shared_tiled:fastcuda_v1", "shared_tiled has no preset 'fastcuda_v1'; did you mean 'fastcuda_v2'?"),
        ("coalesced:anything", "coalesced has no preset 'anything'; there are none"),
        ("vectorized:", "vectorized has no preset ''"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(text, words):
    with pytest.raises(KernelNotFoundError) as caught:
        resolve(text)
    assert words in str(caught.value)
