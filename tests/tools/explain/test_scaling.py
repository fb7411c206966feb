"""Times of products on several GPUs, as predicted."""

import json
from functools import partial

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import ProblemError
from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Arithmetic, Problem
from tilewright.kernels import resolve
from tilewright.tools.cli.main import app
from tilewright.tools.explain.cost.prediction import predict
from tilewright.tools.explain.scaling import ALL_GATHER, DEVICES, REDUCE_SCATTER, SPLIT, Links, scaling

H200 = gpu_named("H200")
LINKS = Links(450.0, 50.0, 8)
KERNEL, _ = resolve("gemm_sm90")


def shares(m, n, k, links=LINKS, devices=DEVICES):
    problem = Problem(m, n, k, Arithmetic("bfloat16", "bfloat16"))
    found = scaling(partial(predict, KERNEL, KERNEL.config(capability=(9, 0)), gpu=H200), problem, links, devices)
    return {(one.scheme, one.devices): one for one in found}


def test_one_gpu_moves_nothing():
    for (_, devices), one in shares(4096, 4096, 4096).items():
        if devices == 1:
            assert (one.link_us, one.network_us) == (0, 0)
            assert one.speedup == pytest.approx(1)


def test_what_moves_over_the_links():
    found = shares(8192, 4096, 2048)
    item = 2
    assert found[ALL_GATHER, 4].link_us == pytest.approx(0.75 * 8192 * 2048 * item / 450e3)
    assert found[REDUCE_SCATTER, 4].link_us == pytest.approx(0.75 * 8192 * 4096 * item / 450e3)
    assert found[SPLIT, 2].link_us == pytest.approx((2048 * 4096 + 8192 * 4096 / 2) * item / 450e3)
    assert found[ALL_GATHER, 16].network_us == pytest.approx(0.5 * 8192 * 2048 * item / 8 / 50e3)
    assert (SPLIT, 16) not in found


def test_a_slow_link_binds_and_a_fast_one_does_not():
    slow, fast = (shares(32768, 16384, 8192, Links(link), (8,)) for link in (20.0, 5000.0))
    assert slow[ALL_GATHER, 8].binds == "link" and fast[ALL_GATHER, 8].binds == "compute"
    assert slow[ALL_GATHER, 8].efficiency < 0.3 < 0.8 < fast[ALL_GATHER, 8].efficiency


def test_two_gpus_end_when_their_products_and_copies_do():
    found = shares(8192, 8192, 8192, devices=(1, 2))
    alone = found[ALL_GATHER, 1].us
    for scheme in (ALL_GATHER, REDUCE_SCATTER, SPLIT):
        one = found[scheme, 2]
        assert one.speedup == pytest.approx(alone / one.us) and 1 < one.speedup < 2
        assert 0.7 < one.of_product < 1


def test_a_product_does_not_divide_further_than_its_sizes():
    assert {one for _, one in shares(16, 4096, 4096)} == {1, 2, 4, 8, 16}
    with pytest.raises(ProblemError, match="devices must be 1 or more, got 0"):
        shares(64, 64, 64, devices=(0,))
    with pytest.raises(ProblemError, match="the GPU cannot hold a block of the kernel with this config"):
        scaling(lambda part: None, Problem(64, 64, 64), LINKS)
    with pytest.raises(ProblemError, match="link must be more than 0"):
        Links(0.0)


def test_on_the_command_line(tmp_path):
    path = tmp_path / "scaling.json"
    options = ["--devices", "3", "--link", "450", "--shape", "4096", "--gpu", "H200", "--dtype", "bfloat16"]
    result = CliRunner().invoke(app, ["explain", "gemm_sm90", *options, "--json", str(path)])
    assert result.exit_code == 0, result.output
    assert "all_gather_matmul" in result.output and "each GPU" in result.output
    facts = json.loads(path.read_text())
    assert {one["devices"] for one in facts["scaling"]} == {*DEVICES, 3}
    refused = CliRunner().invoke(app, ["explain", "gemm_sm90", *options, "--ncu"])
    assert isinstance(refused.exception, ProblemError)
