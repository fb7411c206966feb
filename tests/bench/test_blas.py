"""How many threads NumPy's products take."""

import subprocess
import sys

import pytest

from tilewright.bench.blas import thread_count

CODE = """
from tilewright.bench.blas import one_thread, thread_count
before = thread_count()
with one_thread():
    inside = thread_count()
print(before, inside, thread_count())
"""


@pytest.mark.skipif(thread_count() == 0, reason="NumPy's products are not OpenBLAS's")
def test_products_are_one_thread_s_and_then_as_before(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    out = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout
    before, inside, after = map(int, out.split())
    assert inside == 1
    assert before == after == min(2, before)
