"""Which rung is taken where none is named, and how rungs are named."""

import pytest

from tilewright.errors import KernelNotFoundError
from tilewright.kernels import LADDER, find, resolve
from tilewright.problem import Problem
from tilewright.select import select

CAPABILITIES = [None, (7, 5), (8, 0), (8, 6), (9, 0), (12, 0)]


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("shape", ["0", "1", "17x1x5", "64", "100", "128", "1000x1x1000", "1024", "1x70000x3", "8192"])
def test_every_problem_gets_a_kernel_and_a_config_that_it_takes(shape, capability):
    problem = Problem.parse(shape)
    kernel, config = select(problem, capability)
    kernel.check(problem)
    assert config == kernel.config(config)


def test_a_matrix_that_fills_a_gpu_with_large_tiles_gets_them():
    kernel, config = select(Problem.parse("4096"), (9, 0))
    assert (kernel, config) == (find("warptiled"), find("warptiled").config(capability=(9, 0)))


def test_a_matrix_that_does_not_gets_more_and_smaller_tiles():
    problem = Problem.parse("512")
    large, _ = select(Problem.parse("4096"), (9, 0))
    kernel, config = select(problem, (9, 0))
    assert kernel.launch(problem, config).grid > large.launch(problem, large.config()).grid


def test_a_matrix_smaller_than_every_tile_gets_a_thread_an_element():
    assert select(Problem.parse("8x8x4096"), (9, 0))[0] is find("coalesced")


def test_one_whole_tile_is_enough_for_the_emulator():
    assert select(Problem.parse("128"), None)[0] is find("warptiled")


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
