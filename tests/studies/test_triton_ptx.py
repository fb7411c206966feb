"""The page on Triton's product says what follows from its PTX."""

import pytest

from studies.worklog import triton_ptx
from studies.worklog.triton_ptx import TritonProduct

PTX = """
	cp.async.wait_group 	0;
$L__BB0_2:
	@%p1 st.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5};
	@!%p2 bra 	$L__BB0_2;
	st.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5};
	bar.sync 	0;
"""


@pytest.fixture(autouse=True)
def _checkout(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)


@pytest.fixture
def small(monkeypatch):
    one = TritonProduct(environment={}, shared_bytes=0, tiles={}, options={}, ptx=PTX.splitlines())
    monkeypatch.setattr(triton_ptx, "product", lambda: one)


def test_instructions_are_counted_in_the_kernel_and_in_its_loop(small):
    assert [triton_ptx.count("st.shared.v4", where) for where in ("", "loop")] == ["2", "1"]
    assert triton_ptx.line("st.shared", "loop") == "```text\n@%p1 st.shared.v4.b32 [%r1], {%r2, ..., %r5};\n```"


@pytest.mark.parametrize("asked", [("bar.sync", "loop"), ("wgmma", ""), ("bar.sync", "epilogue")])
def test_what_is_not_there_is_refused(small, asked):
    with pytest.raises(LookupError, match="the PTX has no"):
        triton_ptx.count(*asked)


def test_the_arithmetic_on_the_page_is_that_of_the_record():
    one = triton_ptx.product()
    m, n, k = (one.tiles[name] for name in ("TILE_M", "TILE_N", "TILE_K"))
    threads, stages = 32 * one.options["num_warps"], one.options["num_stages"]
    assert one.shared_bytes == stages * (m * k + k * n) * 2
    loop = {name: int(triton_ptx.count(name, "loop")) for name in ("cp.async.cg", "wgmma.mma_async")}
    assert loop == {"cp.async.cg": (m * k + k * n) * 2 // 16 // threads, "wgmma.mma_async": k // 16}
    # The page says that none of these is there.
    assert not any(word in "\n".join(one.ptx) for word in ("cp.async.bulk", "mbarrier", "setmaxnreg", "cluster"))
    # A descriptor of the swizzle of 128 bytes, 1024 bytes from 8 rows to the next.
    assert str((1 << 62) + ((1024 // 16) << 32)) in "\n".join(one.ptx)
