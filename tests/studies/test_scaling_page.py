"""The page of products on several GPUs."""

from pathlib import Path

import pytest

from studies.pages import fill
from studies.scaling import page


@pytest.mark.further
def test_the_committed_page_is_what_the_model_says():
    text = Path("docs/scaling.md").read_text()
    assert fill(text, page.sections()) == text
